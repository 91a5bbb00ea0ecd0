"""Distributed rate limiting: the experiments of [Ajil], and those on what we added."""
