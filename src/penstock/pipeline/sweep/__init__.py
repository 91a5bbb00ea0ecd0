"""Sweeps: run an experiment in every cell of a parameter grid, with many seeds, as Spark tasks."""
