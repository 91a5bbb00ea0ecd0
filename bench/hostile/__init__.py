"""Attacks real broker processes on loopback as strangers, weak clients and false brokers would.

Every attack has an arena (brokers that run one source tree), an attacker in a process of its own, and beside it an
honest publisher and subscriber whose waits and losses are measured, like the memory of the brokers.
"""
