"""Samples counts over time from outside the brokers: what was published and delivered, and who is where."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

from penstock.cli.story.crowd import Crowd

__all__ = ["Read", "Sample", "Sampler"]

_SAMPLES_MAX: Final = 20_000


@dataclass(slots=True, frozen=True)
class Sample:
    """Counts since the start, at one moment."""

    at_s: float
    published: int
    delivered: int
    delivered_by: Mapping[str, int]
    """Deliveries by broker."""
    published_by: Mapping[str, int]
    """Published messages by feed."""
    clients: Mapping[str, int]
    """Subscribers by broker, at this moment."""


Read = Callable[[Sample], int]
"""Picks one count from a sample."""


class Sampler:
    """Takes samples, and computes rates from them."""

    def __init__(self, crowd: Crowd, *, every_s: float = 0.5, clock: Callable[[], float] = time.monotonic) -> None:
        self._crowd, self._every_s, self._clock = crowd, every_s, clock
        self._begun_s = clock()
        self.samples: deque[Sample] = deque(maxlen=_SAMPLES_MAX)

    @property
    def now_s(self) -> float:
        """Time since the start."""
        return self._clock() - self._begun_s

    def take(self) -> Sample:
        """Take a sample now."""
        crowd = self._crowd
        sample = Sample(
            self.now_s,
            crowd.published,
            crowd.delivered,
            dict(crowd.delivered_by),
            {each.feed.name: each.published for each in crowd.publishers},
            dict(sorted(crowd.clients_by_broker().items())),
        )
        self.samples.append(sample)
        return sample

    async def run(self, on_sample: Callable[[], None]) -> NoReturn:
        """Take samples regularly, and call ``on_sample`` after each."""
        while True:
            self.take()
            on_sample()
            await asyncio.sleep(self._every_s)

    def rate(self, read: Read, window_s: float) -> float:
        """How much a count grew per second, over the last ``window_s``."""
        if not self.samples:
            return 0.0
        last = self.samples[-1]
        first = last
        for sample in reversed(self.samples):
            first = sample
            if last.at_s - sample.at_s >= window_s:
                break
        passed_s = last.at_s - first.at_s
        return (read(last) - read(first)) / passed_s if passed_s > 0 else 0.0
