"""Exactly once and in order, whatever happens: the promise of the whole system, put to the test."""
