"""The client library: thin shells, one for asyncio and one that blocks, around a session that does no I/O.

Applications import what they need from ``penstock``.
"""
