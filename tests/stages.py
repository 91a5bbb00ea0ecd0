"""A stage without brokers: counts grow as the test wants them to, and time passes when somebody looks."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from rich.console import Console

from penstock.cli.story.crowd import Crowd, Member, Publisher
from penstock.cli.story.market import Market
from penstock.cli.story.narrator import Narrator
from penstock.cli.story.outcome import Told
from penstock.cli.story.plan import HOSTS
from penstock.cli.story.sampling import Sampler
from penstock.cli.story.settings import StorySettings
from penstock.cli.story.spark_process import SparkProcess
from penstock.cli.story.stage import Stage
from penstock.client.client import Client
from penstock.lab.links.overlays import Link, RelayedOverlay

LOOK_S = 0.5
SUBSCRIBERS = 8


class World:
    """Stands for the brokers and their links, and moves time on with every look."""

    def __init__(self, folder: Path = Path()) -> None:
        self.now_s = 0.0
        self.plan = SimpleNamespace(pubends={"pb1": ("pb1.a",), "sb1": (), "sb2": ()})
        self.brokers = SimpleNamespace(
            file=folder / "overlay.toml",
            url=lambda name: f"penstock://{name}",
            log=lambda name: self.logs.get(name, ""),
        )
        self.logs: dict[str, str] = {}
        self.limits: dict[Link, float] = {}
        self.cuts: set[Link] = set()
        self.done: list[str] = []
        self.published_share = 1.0
        self.carried = 0
        self.reacts = True
        """Whether links that are harmed show in the rates."""
        self.crowd = Crowd(Market(1, rate=100.0, subscribers=SUBSCRIBERS), durable=1)
        self.counts = {feed.name: 0.0 for feed in self.crowd.market.feeds}
        for feed in self.crowd.market.feeds:
            publisher = SimpleNamespace(feed=feed, published=0)
            self.crowd.publishers.append(cast("Publisher", publisher))
        for member, host in zip(self.crowd.members, HOSTS * 2, strict=True):
            seat(member, host)
        self.sampler = Sampler(self.crowd, clock=lambda: self.now_s)
        self.said = StringIO()
        narrator = Narrator(Console(file=self.said, width=200))
        settings = StorySettings(harm_s=6.0, view_s=2.0, token_s=5.0)
        self.stage = Stage(
            settings,
            cast("RelayedOverlay", self),
            self.crowd,
            self.sampler,
            narrator,
            cast("Client", SimpleNamespace()),
            SparkProcess(),
            clock=lambda: self.now_s,
            look_s=0.0,
        )
        self.told = Told("key", "title", "about")

    def pass_time(self, seconds: float) -> World:
        """Let everything go on for a while."""
        for _ in range(int(seconds / LOOK_S)):
            self.check()
        return self

    # What chapters use of an overlay.

    def check(self) -> None:
        self.now_s += LOOK_S
        for publisher in self.crowd.publishers:
            self.counts[publisher.feed.name] += publisher.feed.rate * self.published_share * LOOK_S
            cast("Any", publisher).published = int(self.counts[publisher.feed.name])
        for host, share in self.shares().items():
            self.crowd.delivered_by[host] += int(1_000 * share * LOOK_S)
        self.carried += 20_000
        self.sampler.take()

    def shares(self) -> Mapping[str, float]:
        harmed = self.cuts | {link for link, bytes_s in self.limits.items() if bytes_s}
        if not self.reacts:
            harmed = set()
        return {
            "sb1": 0.2 if ("ib1", "sb1") in harmed else 1.0,
            "sb2": 1.0,
            **dict.fromkeys(("sb3", "sb4"), 0.0 if ("pb1", "ib2") in harmed else 1.0),
        }

    def limit(self, link: Link, bytes_s: float) -> None:
        self.limits[link] = bytes_s
        self.done.append(f"limit {link[1]} {bytes_s:.0f}")

    def cut(self, link: Link) -> None:
        self.cuts.add(link)
        self.done.append(f"cut {link[1]}")

    def restore(self, link: Link) -> None:
        self.cuts.remove(link)
        self.done.append(f"restore {link[1]}")

    def passed_bytes(self, _link: Link) -> int:
        return self.carried


def seat(member: Member, broker: str, *, moves: int = 0) -> None:
    """Put a subscriber at a broker."""
    counters = SimpleNamespace(moves=moves, reconnects=0)
    member.client = cast("Client", SimpleNamespace(broker=broker, counters=counters))
