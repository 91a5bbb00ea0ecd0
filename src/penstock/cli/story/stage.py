"""Gives chapters what they work with: brokers, crowd, rates and narrator, and a way to wait for a condition."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from penstock.cli.story.crowd import Crowd
from penstock.cli.story.narrator import Narrator
from penstock.cli.story.outcome import Told
from penstock.cli.story.sampling import Read, Sampler
from penstock.cli.story.settings import StorySettings
from penstock.cli.story.spark_process import SparkProcess
from penstock.client.client import Client
from penstock.lab.links.overlays import RelayedOverlay

__all__ = ["Stage"]


@dataclass(slots=True)
class Stage:
    """Everything a chapter may use."""

    settings: StorySettings
    overlay: RelayedOverlay
    crowd: Crowd
    sampler: Sampler
    narrator: Narrator
    observer: Client
    """A client that asks brokers about messages."""
    spark: SparkProcess
    """For the work of the last chapter."""
    clock: Callable[[], float] = time.monotonic
    """Seconds."""
    look_s: float = 0.1
    """Time between two checks of a condition."""

    @property
    def file(self) -> Path:
        """The overlay file."""
        return self.overlay.brokers.file

    @property
    def lake(self) -> Path:
        """The folder that brokers ship to."""
        return self.file.with_name("lake")

    def say(self, told: Told, text: str) -> None:
        """Report an event of the chapter."""
        told.lines.append(text)
        self.narrator.say(text)

    async def until(self, condition: Callable[[], bool], limit_s: float) -> bool:
        """Wait for a condition; False if that took too long. Raises ``BrokerProcessError`` if a broker has ended."""
        give_up_s = self.clock() + limit_s
        while not condition():
            if self.clock() >= give_up_s:
                return False
            self.overlay.check()
            await asyncio.sleep(self.look_s)
        return True

    async def view(self, seconds: float | None = None) -> None:
        """Leave everything as it is for a while, so that people can see it."""
        await self.until(lambda: False, self.settings.view_s if seconds is None else seconds)

    def published_rate(self) -> float:
        """Messages per second that the brokers acknowledge."""
        return self._rate(lambda sample: sample.published)

    def delivered_rate(self, *brokers: str) -> float:
        """Deliveries per second at some brokers, or at all."""
        if not brokers:
            return self._rate(lambda sample: sample.delivered)
        return self._rate(lambda sample: sum(sample.delivered_by.get(each, 0) for each in brokers))

    def feed_rate(self, feed: str) -> float:
        """Messages per second of one feed that the brokers acknowledge."""
        return self._rate(lambda sample: sample.published_by.get(feed, 0))

    def _rate(self, read: Read) -> float:
        return self.sampler.rate(read, self.settings.window_s)
