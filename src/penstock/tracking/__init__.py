"""Tracking: records where every message came from, which way it went and who received it ([Tracking]).

Recording, from the inside out: `hashing` and `bloom` (filters), `spans` (their times), `history` (a sequence of
filters), `recorder` (all histories of a broker). Asking: `catalogue` (matching sets), `answering` (one broker),
`reconstruct` (all of them). Nothing here touches connections, files or clocks.
"""
