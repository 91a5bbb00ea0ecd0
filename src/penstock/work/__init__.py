"""Work queues: groups of subscribers that share messages, each of which is done by one of them."""
