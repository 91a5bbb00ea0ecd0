"""Rate limiting with real processes: on UDP multicast, and between the brokers of an overlay."""
