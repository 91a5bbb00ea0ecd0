"""What a broker does for its own subscribers: streams without gaps, positions, and where subscriptions begin."""
