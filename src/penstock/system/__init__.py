"""What clients and brokers need of the operating system: clocks, the event loop, forks, log lines, sealed datagrams."""
