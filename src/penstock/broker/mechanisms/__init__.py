"""What the papers add to a broker: congestion control, balancing, tracking, rate limits and the token."""
