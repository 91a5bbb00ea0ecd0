"""Experiments that need Spark, and the registry of all experiments, including the lab's."""
