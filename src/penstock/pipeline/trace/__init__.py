"""The bulk trace: the ways of millions of messages from what brokers have shipped ([Tracking] section 3.3)."""
