"""Serves a broker's own subscribers: streams without gaps, positions, and where subscriptions begin."""
