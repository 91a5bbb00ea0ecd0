"""Programs that drive a STOMP server by client libraries, one check per run."""
