"""STOMP clients of real brokers: brokers are killed while receipts are awaited."""
