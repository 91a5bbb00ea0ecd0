"""Five broker processes ship to one lake when they hold the token, and the holder is killed.

Messages are published at the first broker, which is never killed. The outcome is judged from outside, by the log
lines of operations and the files of the lake: each published message must be there once, and no batch twice.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.client.client import Client, connect
from penstock.lab.demo_overlay import DemoOverlay, OverlayPlan
from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter
from penstock.lab.token.figures import overlap_share, ratio
from penstock.model.errors import MisuseError, PenstockError
from penstock.model.message_id import MessageId
from penstock.session.errors import ClientError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["TOKEN_SHIPPING", "Shipment", "judge_lake", "shipments"]

_OPERATED: Final = re.compile(r" operated broker=(\S+) fence=\S+ begun_ms=(\d+) ended_ms=(\d+)")
_PUBEND: Final = "b0.a"
_POLL_S: Final = 0.01
_MISSING: Final = "pyarrow is not installed; install it with: pip install 'penstock[spark]'"


@dataclass(slots=True, frozen=True)
class Shipment:
    """One operation of a broker, in milliseconds since 1970."""

    broker: str
    begun_ms: int
    ended_ms: int


@dataclass(slots=True, frozen=True)
class _Plan(OverlayPlan):
    """An overlay with a lake, a token, and exact records of all published messages."""

    interval_ms: int = 3_000
    turn_ms: int = 200

    def toml(self, ports: Mapping[str, int]) -> str:
        ship = [f"interval_ms = {self.interval_ms}", f"turn_ms = {self.turn_ms}"]
        more = ["[ship]", 'lake = "lake"', 'when = "token"', *ship, "[tracking]", 'strategy = "exact"']
        # Not super(): a dataclass with slots is a copy, and super() would refer to the original class.
        return OverlayPlan.toml(self, ports) + "\n".join(more) + "\n"


@dataclass(slots=True)
class _Story:
    """The events of a run, as the driver saw them."""

    published: list[MessageId] = field(default_factory=list)
    killed_ms: list[float] = field(default_factory=list)
    begun_ms: float = 0.0
    ended_ms: float = 0.0


def shipments(log: str) -> list[Shipment]:
    """The operations in a broker's log."""
    return [Shipment(broker, int(begun), int(ended)) for broker, begun, ended in _OPERATED.findall(log)]


def judge_lake(lake: Path, published: Sequence[MessageId]) -> tuple[int, int]:
    """How many of these messages are missing from the lake, and how many of its rows are duplicates."""
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise MisuseError(_MISSING) from None
    blocks: dict[tuple[str, str, int], tuple[tuple[int, int], list[tuple[int, int]]]] = {}
    seen: Counter[tuple[Any, ...]] = Counter()
    for path in sorted(each for each in lake.rglob("*.parquet") if not _is_hidden(each.relative_to(lake))):
        table, rows = path.relative_to(lake).parts[0], pq.ParquetFile(path).read().to_pylist()
        broker = next(part for part in path.parts if part.startswith("broker="))
        if table == "telemetry":
            seen.update(
                (broker, row["incarnation"], row["sequence"], row["metric"], str(row["labels"])) for row in rows
            )
        for row in rows if table == "records" and broker == "broker=b0" else ():
            if row["history"].startswith("publish"):
                # A growing block is shipped again in full; the newest version counts.
                key, version = (broker, row["history"], row["filter_id"]), (row["generation"], row["sequence"])
                if key not in blocks or blocks[key][0] < version:
                    blocks[key] = (version, [])
                if blocks[key][0] == version:
                    blocks[key][1].append((row["id_high"], row["id_low"]))
    found = Counter(each for _, ids in blocks.values() for each in ids)
    wanted = {_halves(each) for each in published}
    twice = sum(count - 1 for counted in (seen, found) for count in counted.values())
    return len(wanted - found.keys()), twice


def _is_hidden(path: Path) -> bool:
    """Whether a file is still being written, or was when its broker was killed."""
    return any(part.startswith((".", "_")) for part in path.parts)


def _halves(message_id: MessageId) -> tuple[int, int]:
    raw = message_id.to_bytes()
    return int.from_bytes(raw[:8], signed=True), int.from_bytes(raw[8:], signed=True)


def _run(context: Context) -> Mapping[str, float]:
    interval_ms, turn_ms = context.integer("interval_ms"), context.integer("turn_ms")
    names = [f"b{number}" for number in range(context.integer("brokers"))]
    pubends = {name: (_PUBEND,) if name == names[0] else () for name in names}
    plan = _Plan(pubends, [(name, names[0]) for name in names[1:]], interval_ms=interval_ms, turn_ms=turn_ms)
    kills, story = context.integer("kills"), _Story()
    context.reporter.stage(f"{len(names)} brokers ship in turn, and holders are killed", total=kills)
    with DemoOverlay(plan) as overlay:
        asyncio.run(_play(context, overlay, story, max_s=3 * interval_ms / 1_000))
        found = sorted(
            (each for name in names for each in shipments(overlay.log(name))), key=lambda each: each.begun_ms
        )
        lost, twice = judge_lake(overlay.file.with_name("lake"), story.published)
    context.figure(lambda figure: _draw(figure, names, found, story))
    return _measured(names, found, story, interval_ms) | {"lost": lost, "twice": twice}


async def _play(context: Context, overlay: DemoOverlay, story: _Story, *, max_s: float) -> None:
    names = list(overlay.plan.pubends)
    await overlay.linked()
    async with connect(overlay.url(names[0])) as publisher:
        publishing = asyncio.create_task(_publish(publisher, story))
        await _shipped_since(overlay, names, _now_ms(), max_s=10 * max_s)
        story.begun_ms = _now_ms()
        await asyncio.sleep(max_s)
        for _ in range(context.integer("kills")):
            holder = await _holder(overlay, names[1:], max_s=10 * max_s)
            await asyncio.to_thread(overlay.kill, holder)
            story.killed_ms.append(_now_ms())
            await _shipped_since(overlay, [], story.killed_ms[-1], max_s=10 * max_s)
            await asyncio.to_thread(overlay.start, holder)
            await overlay.linked()
            await _shipped_since(overlay, names, _now_ms(), max_s=20 * max_s)
            context.reporter.advance()
        story.ended_ms = _now_ms()
        publishing.cancel()
        with suppress(asyncio.CancelledError):
            await publishing
        # The last records are stored within a second, and shipped at the turn after that.
        await asyncio.sleep(2.0)
        await _shipped_since(overlay, names[:1], _now_ms(), max_s=20 * max_s)


async def _publish(publisher: Client, story: _Story) -> None:
    while True:
        story.published.append(await publisher.publish({"number": len(story.published)}, pubend=_PUBEND))
        await asyncio.sleep(0.05)


async def _shipped_since(overlay: DemoOverlay, names: Sequence[str], since_ms: float, *, max_s: float) -> None:
    """Wait until these brokers, or any one if none is named, have begun to ship after a time."""
    give_up_s = time.monotonic() + max_s
    while True:
        recent = {
            each.broker
            for name in overlay.plan.pubends
            for each in shipments(overlay.log(name))
            if each.begun_ms > since_ms
        }
        if recent and set(names) <= recent:
            return
        if time.monotonic() > give_up_s:
            raise PenstockError(f"{', '.join(set(names) - recent) or 'no broker'} did not ship within {max_s:.0f} s")
        await asyncio.sleep(0.1)


async def _holder(overlay: DemoOverlay, names: Sequence[str], *, max_s: float) -> str:
    """Wait until one of these brokers holds the token, and return its name."""
    async with AsyncExitStack() as stack, asyncio.timeout(max_s):
        clients = {name: await stack.enter_async_context(connect(overlay.url(name))) for name in names}
        while True:
            for name, client in clients.items():
                with suppress(ClientError):
                    found = (await client.status()).token
                    if found is not None and found.holding:
                        return name
            await asyncio.sleep(_POLL_S)


def _now_ms() -> float:
    return time.time() * 1_000


def _measured(names: Sequence[str], found: Sequence[Shipment], story: _Story, interval_ms: int) -> dict[str, float]:
    spans = [(float(each.begun_ms), float(each.ended_ms)) for each in found]
    gaps = [
        later.begun_ms - earlier.begun_ms
        for name in names
        for earlier, later in pairwise([each for each in found if each.broker == name])
        # Time with a kill in between counts as a delay, not as an interval.
        if not any(earlier.begun_ms <= at_ms <= later.begun_ms for at_ms in story.killed_ms)
    ]
    delays = [min(each.begun_ms for each in found if each.begun_ms > at_ms) - at_ms for at_ms in story.killed_ms]
    return {
        "overlap": round(overlap_share(spans, story.begun_ms, story.ended_ms), 6),
        "interval_min": round(ratio(min(gaps, default=0), interval_ms), 3),
        "interval_mean": round(ratio(sum(gaps), len(gaps) * interval_ms), 3),
        "kill_delay_max": round(max(delays, default=0.0) / (3 * interval_ms), 3),
        "ship_ms_mean": round(ratio(sum(end - begin for begin, end in spans), len(spans)), 1),
        "shipments": len(found),
        "kills": len(story.killed_ms),
        "published": len(story.published),
    }


def _draw(figure: Figure, names: Sequence[str], found: Sequence[Shipment], story: _Story) -> None:
    axes = figure.add_subplot()
    first_ms = found[0].begun_ms
    for place, name in enumerate(names):
        begins = [(each.begun_ms - first_ms) / 1_000 for each in found if each.broker == name]
        label = "ships" if place == 0 else None
        axes.plot(begins, [place] * len(begins), "|", color="#4477aa", markersize=14, markeredgewidth=2, label=label)
    for place, at_ms in enumerate(story.killed_ms):
        label = "the holder is killed" if place == 0 else None
        axes.axvline((at_ms - first_ms) / 1_000, color="#cc6677", label=label)
    axes.set(xlabel="time (s)", ylabel="broker")
    axes.set_yticks(range(len(names)), names)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    axes.set_title("Brokers ship to the lake when the token is with them")


TOKEN_SHIPPING: Final = Experiment(
    name="token-shipping",
    summary="broker processes ship to a lake when the token is with them, and the holder is killed",
    source="our own; [Token] as it is used by brokers",
    parameters=(
        Parameter("brokers", 5, "broker processes", quick=3, minimum=2, maximum=50),
        Parameter("kills", 3, "how often the holder is killed", quick=1, minimum=0, maximum=1_000),
        Parameter("interval_ms", 10_000, "least time between two turns of a broker (Δmin)", quick=1_500, minimum=200),
        Parameter("turn_ms", 1_000, "budget of one turn (Δop)", quick=200, minimum=20),
    ),
    published={},
    run=_run,
)
