"""Unnecessary searches of path reconstruction: how often neighbours that never saw a message claim it ([Tracking] 4.3).

Messages go along a chain of brokers, each with D' more neighbours that had other messages of the same origin at the
same time: their histories are full, and two filters match every timestamp, so that their efpp is the worst that the
settings promise. A neighbour that claims a message by chance causes an unnecessary one-hop search; its subscriber seems
to have got the message only if a second history errs too. Brokers are asked as in a live trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from random import Random
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Final

from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter
from penstock.model.message_id import MessageId
from penstock.tracking.answering import Answerer
from penstock.tracking.answers import Evidence, Trace
from penstock.tracking.attachment import AttachmentMap
from penstock.tracking.hashing import subscriber_key
from penstock.tracking.keys import Phase
from penstock.tracking.reconstruct import Reconstruction
from penstock.tracking.recorder import Recorder
from penstock.tracking.records import Keep
from penstock.tracking.settings import TrackingSettings
from penstock.tracking.sizing import FilterShape, choose_shape, efpp

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["TRACKING_SEARCH", "SearchField"]

_ORIGIN: Final = 1
_START_MS: Final = 1_700_000_000_000
_WINDOW_MS: Final = 200
"""All timestamps lie within this window, in any order: no further apart than skew and jitter allow."""
_MARGIN_MS: Final = 20
"""Distance of traced messages from the ends of the window, which not every filter reaches."""
_FILTER_BYTES: Final = 8_192
_MATCHING: Final = 2
_FOREIGN_COUNTER: Final = 60_000
"""Counters of traced messages begin here: neighbours never have them."""


@dataclass(slots=True, frozen=True)
class _Tally:
    """The results of one field of brokers."""

    searches: float
    """Neighbours that claimed a message they never saw, per broker on its path."""
    receivers: float
    """Subscribers of such neighbours that seemed to have got it, per broker on its path."""
    missed: int
    """Brokers on the path of a message that did not claim it: there must be none."""


class SearchField:
    """A chain of brokers with their neighbours, and the records of all of them."""

    def __init__(self, rng: Random, *, hops: int, neighbours: int, shape: FilterShape, asked_efpp: float) -> None:
        self._rng = rng
        self._settings = TrackingSettings(shape=shape, efpp=asked_efpp, persist_ms=10**9)
        self._stored: dict[str, dict[str, bytes | None]] = {}
        self._path = [f"hop-{number}" for number in range(hops)]
        self._answerers: dict[str, Answerer] = {}
        self._links: dict[str, list[str]] = {}
        for place, name in enumerate(self._path):
            beside = [f"{name}-neighbour-{number}" for number in range(neighbours)]
            self._links[name] = [*beside, *self._path[max(place - 1, 0) : place], *self._path[place + 1 : place + 2]]
            self._links |= {each: [name] for each in beside}
        for number, name in enumerate(self._links):
            self._answerers[name] = self._broker(name, number + _ORIGIN)

    def follow(self, messages: int) -> _Tally:
        """Send messages along the chain, and trace each of them."""
        ids = [self._message(_FOREIGN_COUNTER + number % 5_000, number // 5_000) for number in range(messages)]
        self._record_path(ids)
        searches = receivers = missed = 0
        for each in ids:
            trace = self._trace(each)
            claiming = {hop.broker for hop in trace.hops if hop.claim is Evidence.YES}
            missed += sum(name not in claiming for name in self._path)
            searches += sum(name not in self._path for name in claiming)
            receivers += len(trace.receivers)
        passed = messages * len(self._path)
        return _Tally(searches / passed, receivers / passed, missed)

    def matching_sets(self, timestamp_ms: int) -> list[int]:
        """How many filters each neighbour has to check for a timestamp."""
        asked = MessageId(1, _ORIGIN, timestamp_ms, 0)
        beside = [self._answerers[name] for name in self._links if name not in self._path]
        return [len(each.inquire(asked, now_ms=_START_MS + _WINDOW_MS).needs) for each in beside]

    def _broker(self, name: str, number: int) -> Answerer:
        recorder = Recorder(number, self._settings, now_ms=_START_MS)
        attachments = AttachmentMap()
        self._stored[name] = {}
        if name not in self._path:
            attachments.attach(name, {}, now_ms=_START_MS - 10 * _WINDOW_MS)
            self._fill(name, recorder)
        return Answerer(name, number, recorder, attachments, slack_ms=self._settings.late_ms)

    def _fill(self, name: str, recorder: Recorder) -> None:
        """Record enough other messages to fill the filters, all within the window."""
        now_ms = _START_MS + _WINDOW_MS // 2
        shape, key = self._settings.options(Phase.ROUTE).shape, subscriber_key(name)
        for _ in range(_MATCHING):
            publisher = self._rng.randrange(1, 2**31)
            ids = b"".join(self._other(publisher, number) for number in range(shape.n))
            recorder.record_routed(_ORIGIN, ids, now_ms=now_ms)
            recorder.record_delivered(_ORIGIN, ids, [key] * shape.n, now_ms=now_ms)
        self._keep(name, recorder)

    def _other(self, publisher: int, number: int) -> bytes:
        timestamp_ms = _START_MS + self._rng.randrange(_WINDOW_MS)
        return MessageId(publisher, _ORIGIN, timestamp_ms, number % _FOREIGN_COUNTER).to_bytes()

    def _message(self, counter: int, publisher: int) -> MessageId:
        timestamp_ms = _START_MS + self._rng.randrange(_MARGIN_MS, _WINDOW_MS - _MARGIN_MS)
        return MessageId(publisher + 1, _ORIGIN, timestamp_ms, counter)

    def _record_path(self, ids: list[MessageId]) -> None:
        joined = b"".join(each.to_bytes() for each in ids)
        for place, name in enumerate(self._path):
            recorder = self._answerers[name].tracking
            assert isinstance(recorder, Recorder)
            if place == 0:
                recorder.record_published(joined, now_ms=_START_MS + _WINDOW_MS // 2)
            else:
                recorder.record_routed(_ORIGIN, joined, now_ms=_START_MS + _WINDOW_MS // 2)
            self._keep(name, recorder)

    def _keep(self, name: str, recorder: Recorder) -> None:
        taken: list[Keep] = recorder.take()
        self._stored[name] |= {keep.name: keep.value for keep in taken}
        recorder.on_kept(taken)

    def _trace(self, message_id: MessageId) -> Trace:
        search = Reconstruction(message_id, self._path[0])
        while not search.is_done:
            for ask in search.asks():
                answerer, links = self._answerers[ask.broker], self._links[ask.broker]
                inquiry = answerer.inquire(message_id, ask.origins, neighbours=links, now_ms=_START_MS + _WINDOW_MS)
                while inquiry.answer is None:
                    inquiry.on_loaded({name: self._stored[ask.broker].get(name) for name in inquiry.needs})
                search.on_answer(inquiry.answer)
        return search.result()


def _run(context: Context) -> Mapping[str, float]:
    neighbours, fields = context.integer("neighbours"), context.integer("fields")
    asked_efpp = context.number("efpp")
    shape = choose_shape(asked_efpp, size_bytes_max=_FILTER_BYTES, matching_set=_MATCHING)
    context.reporter.stage(f"{fields} overlays", total=fields)
    tallies: list[_Tally] = []
    for _ in range(fields):
        rng = Random(context.rng.getrandbits(64))
        hops = context.integer("hops")
        field = SearchField(rng, hops=hops, neighbours=neighbours, shape=shape, asked_efpp=asked_efpp)
        assert set(field.matching_sets(_START_MS + _WINDOW_MS // 2)) == {_MATCHING}
        tallies.append(field.follow(context.integer("messages")))
        context.reporter.advance()
    exact_efpp = efpp(shape.fpp, _MATCHING)
    searches = [each.searches for each in tallies]
    receivers = [each.receivers for each in tallies]
    context.figure(lambda figure: _draw(figure, searches, neighbours * exact_efpp))
    return {
        "searches_mean": round(fmean(searches), 5),
        "searches_theory": round(neighbours * exact_efpp, 5),
        "searches_standard_error": round(_error_of_mean(searches), 5),
        "standard_errors": _deviation(searches, neighbours * exact_efpp),
        "false_receivers_mean": round(fmean(receivers), 6),
        "false_receivers_theory": round(neighbours * exact_efpp**2, 6),
        "false_receivers_standard_errors": _deviation(receivers, neighbours * exact_efpp**2),
        "missed": sum(each.missed for each in tallies),
        "traces": len(tallies) * context.integer("messages"),
    }


def _error_of_mean(values: list[float]) -> float:
    return stdev(values) / sqrt(len(values))


def _deviation(values: list[float], theory: float) -> float:
    error = _error_of_mean(values)
    return round((fmean(values) - theory) / error, 2) if error else 0.0


def _draw(figure: Figure, searches: list[float], theory: float) -> None:
    axes = figure.add_subplot()
    mean, error = fmean(searches), _error_of_mean(searches)
    axes.plot(range(1, len(searches) + 1), searches, "o", color="C0", label="one overlay")
    axes.axhline(mean, color="C0", linewidth=2, label="mean, with 4 standard errors")
    axes.axhspan(mean - 4 * error, mean + 4 * error, color="C0", alpha=0.15)
    axes.axhline(theory, color="C3", linestyle="--", linewidth=2, label="D' · efpp")
    axes.set(xlabel="overlay", ylabel="unnecessary searches per broker on the way")
    axes.set_ylim(0, 1.1 * max(*searches, theory))
    axes.locator_params(axis="x", integer=True)
    axes.set_title("Unnecessary one-hop searches of path reconstruction")
    axes.grid(visible=True, axis="y", alpha=0.3)
    axes.legend(frameon=False, loc="lower right")


TRACKING_SEARCH: Final = Experiment(
    name="tracking-search",
    summary="How many neighbours path reconstruction searches in vain, beside D' · efpp",
    source="[Tracking] section 4.3",
    parameters=(
        Parameter("efpp", 0.05, "probability of a false positive of each history", minimum=1e-4, maximum=0.5),
        Parameter("neighbours", 5, "D': neighbours of each broker that never saw the message", minimum=1, maximum=50),
        Parameter("hops", 4, "brokers on the way of a message", minimum=1, maximum=50),
        Parameter("fields", 20, "overlays, each filled for itself", quick=5, minimum=2, maximum=10_000),
        Parameter("messages", 500, "messages looked for in each overlay", quick=150, minimum=1, maximum=100_000),
    ),
    published={"searches_mean": 0.25, "missed": 0},
    run=_run,
)
