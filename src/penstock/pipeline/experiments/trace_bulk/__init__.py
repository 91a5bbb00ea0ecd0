"""The bulk trace, measured beside two other ways to the same answers."""
