"""Brokers' figures over time: tidy tables, summaries, episodes of congestion and balancing, and one page for people.

Read ``frames`` (from frame to frame), ``rules`` (what counts as an episode, what is drawn), ``job`` (the chain), then
``charts`` and ``page`` (what is shown).
"""

from __future__ import annotations
