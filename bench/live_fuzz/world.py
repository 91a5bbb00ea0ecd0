"""Plays one round of the live fuzz: starts everything, deals the blows, repairs, and waits until everybody has all."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from bench.live_fuzz.blows import Blows
from bench.live_fuzz.clients import ClientProcess
from bench.live_fuzz.diary import PublisherSpec
from bench.live_fuzz.disk import SmallDisk
from bench.live_fuzz.journal import Journal, read_journal
from bench.live_fuzz.plan import RoundPlan
from bench.live_fuzz.readings import SubscriberSpec
from penstock.client.client import connect
from penstock.lab.delivery.kill9.harm import links_of
from penstock.lab.delivery.kill9.proxy import LinkProxy
from penstock.lab.demo_overlay import BrokerProcessError, DemoOverlay, OverlayPlan
from penstock.session.errors import ClientError

__all__ = ["Played", "play_round"]

_READY_S_MAX: Final = 30.0
_PUBLISHED_S_MAX: Final = 120.0
_READ_S_MAX: Final = 90.0
_POLL_S: Final = 0.1
_EVENTS: Final = ("store-full", "log-full", "log-lapsed", "host-lapsed", "draining", "overlay-applied", "client-left")
"""Events in the logs of brokers that show which paths a round took."""


@dataclass(slots=True)
class Played:
    """What happened in a round, beyond the journals of clients."""

    blows: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    lives: int = 0
    stuck: list[str] = field(default_factory=list)
    """Clients that did not finish although all harm was repaired."""
    crashes: list[str] = field(default_factory=list)
    """Processes that ended by themselves, and unexpected errors in logs."""
    left_out: str = ""
    """Why there was no full disk, if a blow needed one."""


async def play_round(plan: RoundPlan, folder: Path) -> Played:
    """Play a round in a folder, which keeps journals, logs and stores."""
    played = Played()
    try:
        await _play(plan, folder, played)
    except* BrokerProcessError as group:
        played.crashes += [str(error) for error in group.exceptions]
    _look_into_logs(plan, folder, played)
    return played


async def _play(plan: RoundPlan, folder: Path, played: Played) -> None:
    disk = SmallDisk(folder / "data" / plan.small_disk)
    async with AsyncExitStack() as stack:
        if any(blow.kind == "full-disk" for blow in plan.blows):
            stack.enter_context(disk)
            played.left_out = disk.refusal
        overlay = await _entered(stack, _overlay(plan, folder))
        await _Round(plan, folder, overlay, disk, played).play()


async def _entered(stack: AsyncExitStack, overlay: DemoOverlay) -> DemoOverlay:
    # In a thread: Ctrl-C must not have to wait for starting brokers.
    await asyncio.to_thread(overlay.__enter__)
    stack.callback(overlay.close)
    return overlay


def _overlay(plan: RoundPlan, folder: Path) -> DemoOverlay:
    limits = plan.limits
    own = {name: {"data_bytes_max": limits.data_bytes_max} for name in plan.pubends} if limits.data_bytes_max else {}
    defaults = {**limits.settings(), "migration_ms": 20_000}
    made = OverlayPlan(plan.pubends, plan.links, defaults, own=own, words={"retain_policy": limits.retain_policy})
    return DemoOverlay(made, detours=True, folder=folder, admin=True)


class _Round:
    """The processes and relays of a round."""

    def __init__(self, plan: RoundPlan, folder: Path, overlay: DemoOverlay, disk: SmallDisk, played: Played) -> None:
        self._plan, self._folder, self._overlay, self._disk, self._played = plan, folder, overlay, disk, played
        self._clients: dict[str, ClientProcess] = {}
        self._relays: dict[str, list[LinkProxy]] = {}

    async def play(self) -> None:
        """Play from the first start to the last message."""
        plan = self._plan
        async with AsyncExitStack() as stack:
            links = await links_of(self._overlay, stack)
            await self._overlay.linked()
            stack.callback(self._kill_clients)
            await self._make_clients(stack)
            journal = Journal(self._folder / "blows.jsonl")
            blows = Blows(self._overlay, links, self._relays, self._clients, self._disk, journal)
            async with asyncio.TaskGroup() as group:
                watch = group.create_task(self._watch(blows))
                await self._start_clients()
                journal.write("harm")
                started_s = time.monotonic()
                await blows.strike_all(plan.blows)
                await asyncio.sleep(max(0.0, plan.harm_s - (time.monotonic() - started_s)))
                journal.write("healed")
                await self._finish()
                journal.write("finished")
                watch.cancel()
            self._played.blows = blows.counts
            self._played.lives = blows.lives

    async def _make_clients(self, stack: AsyncExitStack) -> None:
        plan = self._plan
        for subscriber in plan.subscribers:
            urls = await self._relayed(stack, subscriber.name, subscriber.brokers)
            spec = SubscriberSpec(subscriber, plan.seed, tuple(urls))
            self._add_client("bench.live_fuzz.subscriber", subscriber.name, msgspec.json.encode(spec))
        for publisher in plan.publishers:
            (url,) = await self._relayed(stack, publisher.name, publisher.brokers)
            made = PublisherSpec(publisher, plan.seed, url, fork_first="forked-client" not in plan.off)
            self._add_client("bench.live_fuzz.publisher", publisher.name, msgspec.json.encode(made))

    def _add_client(self, module: str, name: str, spec: bytes) -> None:
        self._clients[name] = ClientProcess(module, name, spec, self._folder)

    async def _relayed(self, stack: AsyncExitStack, client: str, brokers: Sequence[str]) -> list[str]:
        """Start relays from a client to its brokers; return the URLs to connect to."""
        relays = [await stack.enter_async_context(LinkProxy(0, self._overlay.port(broker))) for broker in brokers]
        self._relays[client] = relays
        return [f"penstock://127.0.0.1:{relay.port}" for relay in relays]

    async def _start_clients(self) -> None:
        """Start subscribers, and publishers once the witness will miss nothing."""
        for subscriber in self._plan.subscribers:
            self._clients[subscriber.name].start()
        witness = self._clients[self._plan.subscribers[0].name]
        deadline_s = time.monotonic() + _READY_S_MAX
        while not self._is_confirmed(witness):
            if time.monotonic() > deadline_s:
                self._played.stuck.append(f"{witness.name} was not confirmed in an overlay that nobody harmed")
                break
            await asyncio.sleep(_POLL_S)
        for publisher in self._plan.publishers:
            self._clients[publisher.name].start()

    def _is_confirmed(self, client: ClientProcess) -> bool:
        lines = [line for line in read_journal(client.journal) if line[0] == "starts" and line[2] == 0]
        return any(set(self._plan.all_pubends) <= set(line[3]) for line in lines)

    async def _watch(self, blows: Blows) -> None:
        """Watch for brokers that end by themselves."""
        while True:
            await asyncio.sleep(1.0)
            self._overlay.check(besides=blows.down)

    async def _finish(self) -> None:
        """After the repair, let publishers flush, and subscribers read to the end."""
        await self._overlay.linked()
        publishers = [self._clients[each.name] for each in self._plan.publishers]
        for client in publishers:
            client.say("finish")
        await self._all_ended(publishers, _PUBLISHED_S_MAX)
        targets = await self._targets()
        subscribers = [self._clients[each.name] for each in self._plan.subscribers]
        for client in subscribers:
            client.say("finish", targets)
        (self._folder / "targets.json").write_text(json.dumps(targets), encoding="utf-8")
        await self._all_ended(subscribers, _READ_S_MAX)

    async def _all_ended(self, clients: Sequence[ClientProcess], patience_s: float) -> None:
        deadline_s = time.monotonic() + patience_s
        for client in clients:
            if not await client.ended(patience_s=max(0.0, deadline_s - time.monotonic())):
                self._played.stuck.append(f"{client.name} had not finished {patience_s:.0f} s after the repair")
            elif client.exit_code:
                self._played.crashes.append(f"{client.name} ended with code {client.exit_code}")

    async def _targets(self) -> dict[str, int]:
        """The last tick of each pubend, everything up to which is durable."""
        deadline_s = time.monotonic() + _READ_S_MAX
        wanted = set(self._plan.all_pubends)
        while time.monotonic() < deadline_s:
            try:
                async with asyncio.timeout(_READY_S_MAX), connect(self._overlay.url("b1")) as client:
                    survey = await client.survey()
            except (ClientError, TimeoutError):
                continue
            if wanted <= set(survey.spans):
                return {pubend: span.latest for pubend, span in survey.spans.items()}
            await asyncio.sleep(_POLL_S)
        self._played.stuck.append("not all pubends could be surveyed after the repair")
        return {}

    def _kill_clients(self) -> None:
        for client in self._clients.values():
            client.kill()


def _look_into_logs(plan: RoundPlan, folder: Path, played: Played) -> None:
    names = [*plan.pubends, *(each.name for each in plan.publishers), *(each.name for each in plan.subscribers)]
    for name in names:
        path = folder / f"{name}.log"
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        for event in _EVENTS:
            played.events[event] += text.count(event)
        if "Traceback" in text or "never retrieved" in text:
            place = text.find("Traceback")
            played.crashes.append(f"{name} wrote an unexpected error:\n{text[place : place + 1500]}")
    for line in read_journal(folder / "blows.jsonl"):
        if line[0] in {"bad-exit", "did-not-leave"}:
            played.crashes.append(f"{line[2]}: {line[0]} {line[3:]}")
