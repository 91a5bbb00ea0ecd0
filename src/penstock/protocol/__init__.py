"""What brokers and clients say to each other: frames, their bytes, and the limits of what a peer may say."""
