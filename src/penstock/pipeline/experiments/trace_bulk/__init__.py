"""Measures the bulk trace against two other ways to get the same answers."""
