"""Serves the peers that connect to a broker: admits them, accepts their messages, answers their questions."""
