"""Workloads made from a seed: the messages that applications publish and the selectors they subscribe with."""

from __future__ import annotations

from penstock.sim.workloads.lines import InputFileError
from penstock.sim.workloads.quote_files import load_quotes
from penstock.sim.workloads.quotes import QuoteWorkload
from penstock.sim.workloads.topics import TopicPublication, TopicWorkload

__all__ = ["InputFileError", "QuoteWorkload", "TopicPublication", "TopicWorkload", "load_quotes"]
