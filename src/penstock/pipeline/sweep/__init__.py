"""Sweeps: an experiment in every cell of a grid of parameters, with many seeds, as tasks of Spark."""
