"""The sink under fire: driver, executors and brokers are killed, and everything is published once."""
