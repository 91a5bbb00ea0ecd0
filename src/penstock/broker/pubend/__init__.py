"""The pubends of a broker: their logs and ticks, where subscriptions may begin, and what may be trimmed."""
