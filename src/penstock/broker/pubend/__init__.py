"""The pubends of a broker: their logs and ticks, who may begin where, and what may be trimmed."""
