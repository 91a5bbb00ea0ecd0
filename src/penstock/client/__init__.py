"""The client library: thin shells, for asyncio and for everybody else, around the session that needs no I/O.

Applications import what they need from ``penstock``.
"""
