"""Balancing with real brokers: three edges of different bandwidth, and everybody joins the weakest."""
