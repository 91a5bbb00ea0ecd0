"""The mechanisms that the papers add to a broker: congestion control, balancing, tracking, rate limits, the token."""
