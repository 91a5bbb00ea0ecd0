"""Fuzzes whatever comes from outside, in one process and as fast as it goes: frames, selectors, overlay files, stores.

What all of it must be: refused by the documented errors and no other, in less than a second of processor time, in words
that say nothing of Python. ``python -m bench.soak --edges --seeds 100`` throws ten million frames, a million selectors,
a hundred thousand overlay files and ten thousand damaged stores.
"""
