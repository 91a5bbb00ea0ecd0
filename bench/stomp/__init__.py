"""Tries STOMP servers: the conformance script, by raw sockets and by client libraries."""
