"""Which subscriptions match a publication: how the cost grows with their number."""
