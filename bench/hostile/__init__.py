"""Attacks real broker processes on loopback as strangers, weak clients and false brokers would.

Every attack has an arena (brokers that run one source tree), an attacker in a process of its own, and an honest
publisher and subscriber. Their waits and losses are measured, and the memory of the brokers.
"""
