"""Fuzzes live: real brokers behind harmful relays, real clients in processes of their own, judged by their journals."""
