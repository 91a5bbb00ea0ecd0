"""Reports brokers' telemetry: tidy tables, summaries, episodes of congestion and balancing, and a page for people.

Read ``frames`` (frame transformations), ``rules`` (what counts as an episode, what is drawn), ``job`` (the chain), then
``charts`` and ``page`` (the output).
"""

from __future__ import annotations
