"""Histories of messages in Bloom filters: the experiments of [Tracking]."""
