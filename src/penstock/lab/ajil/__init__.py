"""Distributed rate limiting: the experiments of [Ajil], and our own on our extensions."""
