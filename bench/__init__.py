"""Benchmarks side by side with peers (``python -m bench``), and long fuzzing (``python -m bench.soak``)."""
