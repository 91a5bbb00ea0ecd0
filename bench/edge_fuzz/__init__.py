"""Fuzzes all input from outside, in one process and at full speed: frames, STOMP, selectors, overlay files, stores.

Bad input must be refused with the documented errors and no others, in less than a second of processor time, in words
that do not mention Python. ``python -m bench.soak --edges --seeds 100`` throws ten million frames, a million STOMP
frames and selectors each, a hundred thousand overlay files and ten thousand damaged stores.
"""
