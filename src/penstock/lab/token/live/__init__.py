"""The wandering token between processes that talk over real sockets."""
