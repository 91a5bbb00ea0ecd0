"""Keeps a broker's durable data in PostgreSQL, and says which candidate runs a home (decision 24)."""
