"""The story of ``penstock demo``: real processes, a crowd of subscribers, one chapter for each mechanism, a verdict.

From the inside out: ``settings`` and ``market`` (what is played), ``plan`` (the overlay file), ``crowd`` (publishers
and subscribers), ``sampling`` (rates over time), ``stage`` (what chapters work with), the chapters (``spreading``,
``links``, ``limit``, ``token``, ``trace``, ``spark``), ``judging`` and ``telling`` (all of it in order); ``narrator``
and ``page`` show it.
"""

from __future__ import annotations

from penstock.cli.story.narrator import Narrator
from penstock.cli.story.outcome import Outcome
from penstock.cli.story.page import story_page
from penstock.cli.story.settings import FAST, FULL, StorySettings
from penstock.cli.story.telling import tell

__all__ = ["FAST", "FULL", "Narrator", "Outcome", "StorySettings", "story_page", "tell"]
