"""Delivery between real brokers that are killed, paused and cut off all the time."""
