"""Load balancing between brokers: the experiments of [PADRES]."""
