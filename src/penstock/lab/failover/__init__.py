"""Pubends that move: their holders, their database and the network in between die while real clients go on."""
