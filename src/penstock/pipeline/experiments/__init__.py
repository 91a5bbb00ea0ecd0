"""Experiments that need Spark, and the list of all experiments: of the lab, and of these."""
