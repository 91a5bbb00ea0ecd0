"""The frame of all experiments: their parameters, how they are run and measured, and what a caller can get wrong."""
