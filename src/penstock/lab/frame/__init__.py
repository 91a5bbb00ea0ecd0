"""The common frame of all experiments: parameters, running, measuring, and errors a caller can make."""
