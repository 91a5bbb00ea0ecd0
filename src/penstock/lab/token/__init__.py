"""The wandering token: the experiments of [Token], and what it does for brokers that ship to a lake."""
