"""The client without I/O: connecting, subscribing, publishing, moving to another broker; it keeps its own deadlines."""
