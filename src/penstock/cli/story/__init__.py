"""Tells the story of ``penstock demo``: real processes, a crowd of subscribers, a chapter per mechanism, a verdict.

From the inside out: ``settings`` and ``market`` (the workload), ``plan`` (the overlay file), ``crowd`` (publishers
and subscribers), ``sampling`` (rates over time), ``stage`` (what chapters work with), the chapters (``spreading``,
``links``, ``limit``, ``token``, ``trace``, ``spark``), ``telling`` (all of it in order, and the verdict); ``narrator``
and ``page`` show it.
"""

from __future__ import annotations

from penstock.cli.story.narrator import Narrator
from penstock.cli.story.outcome import Outcome
from penstock.cli.story.page import story_page
from penstock.cli.story.settings import FAST, FULL, StorySettings
from penstock.cli.story.telling import tell

__all__ = ["FAST", "FULL", "Narrator", "Outcome", "StorySettings", "story_page", "tell"]
