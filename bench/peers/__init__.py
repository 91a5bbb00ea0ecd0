"""Measures Penstock side by side with other brokers: ``make bench-peers``, or ``python -m bench.peers``.

One driver serves all: raw sockets, frames prepared before the clock starts, deliveries counted (``bench/live_driver``).
Each peer is a module with its protocol, the way to start it, and the differences to Penstock that a reader of the
figures should know. ``workloads`` says what is measured, ``rounds`` turns it into medians, and ``targets`` says what we
want of them.
"""
