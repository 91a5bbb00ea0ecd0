"""Work queues of real processes: workers and brokers are killed while jobs are done."""
