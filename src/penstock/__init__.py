"""Penstock: content-based publish/subscribe with guaranteed delivery, balancing and an audit trail."""

__version__ = "0.1.0"
