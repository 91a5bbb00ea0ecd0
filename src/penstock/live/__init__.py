"""The real world of a broker: sockets, clocks, files and certificates around the same broker that is simulated.

Nothing here decides anything about the protocol: bytes become frames, effects become writes, deadlines become timers.
"""
