"""The archive under fire: its driver is killed in every phase of its work, and brokers are killed too."""
