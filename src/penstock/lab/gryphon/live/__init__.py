"""The first two experiments on congestion with real brokers, on links that the kernel or a relay slows down."""
