"""The sink under fire: driver, executors and brokers are killed, and every message is published once."""
