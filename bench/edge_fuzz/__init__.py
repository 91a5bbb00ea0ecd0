"""Fuzzes all input from outside, in one process and at full speed: frames, selectors, overlay files, stores.

Bad input must be refused with the documented errors and no others, in less than a second of processor time, in words
that do not mention Python. ``python -m bench.soak --edges --seeds 100`` throws ten million frames, a million selectors,
a hundred thousand overlay files and ten thousand damaged stores.
"""
