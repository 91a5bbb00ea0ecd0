"""The protocol between brokers and clients: frames, their encoding, and the limits on what a peer may send."""
