"""The client without I/O: connecting, subscriptions, publishing, moving to another broker; its deadlines are inside."""
