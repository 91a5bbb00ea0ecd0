"""Guaranteed delivery and congestion control: the experiments of [Gryphon], and our own on the same overlays."""
