"""Runs a broker for real: sockets, clocks, files and certificates around the same broker that the simulator runs.

Nothing here makes protocol decisions: bytes become frames, effects become writes, deadlines become timers.
"""
