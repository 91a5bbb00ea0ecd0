"""Bytes that tracking keeps and writes for a message, by configuration ([Tracking] section 5, figures 4, 5).

A real recorder takes 5,000 messages a second of virtual time into its publisher history, and everything it hands out is
weighed: headers, checksums, names and marks included. "Kept" is what is left when every value has replaced the one of
the same name; "written" is everything handed out. Keep-filling leaves only full filters, and writes each of them again
and again until it is full: the shorter Tp and the larger the filter, the more often. A store's own overhead is not
included.

Values are compressed one by one, with zstd if pyarrow is installed, and otherwise with gzip as in the paper; the names
of metrics say which.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter
from penstock.lab.tracking.table import BUFFERS, FULL_BYTES, ROW_EFPP, Configuration, configurations, metric_of
from penstock.tracking.accuracy import message_columns
from penstock.tracking.hashing import subscriber_key
from penstock.tracking.recorder import Recorder
from penstock.tracking.records import Keep
from penstock.tracking.settings import TrackingSettings
from penstock.tracking.sizing import TABLE_2

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["TRACKING_STORAGE", "Weighed", "recorded"]

_ID_BYTES: Final = 16
_START_MS: Final = 1_700_000_000_000
_PER_MS: Final = 5
"""Messages that `message_columns` makes in a millisecond: 5,000 a second."""
_TURN_MS: Final = 20
_BROKER: Final = 7
"""The broker in the ids that `message_columns` makes."""
_NEVER_MS: Final = 10**9
_FULL_FILTERS: Final = 8
_SUBSCRIBERS: Final = 500

_Compress = Callable[[bytes], int]


@dataclass(slots=True)
class Weighed:
    """Sizes of the values that a recorder handed out."""

    records: int = 0
    written: int = 0
    written_compressed: int = 0
    forces: int = 0
    """How often filters or records were handed out."""
    _kept: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add(self, keep: Keep, compress: _Compress) -> None:
        """Count a value, which replaces the one of the same name."""
        if keep.value is None:
            self._kept.pop(keep.name, None)
            return
        compressed = len(keep.name) + min(compress(keep.value), len(keep.value))
        self.written += keep.size_bytes
        self.written_compressed += compressed
        self.forces += keep.name.startswith("filter/")
        self._kept[keep.name] = keep.size_bytes, compressed

    @property
    def kept(self) -> int:
        """Bytes kept in the end."""
        return sum(size for size, _ in self._kept.values())

    @property
    def kept_compressed(self) -> int:
        """Bytes kept in the end, compressed."""
        return sum(size for _, size in self._kept.values())

    def per_message(self, codec: str) -> dict[str, float]:
        """All sizes, in bytes per message."""
        sizes = {
            "kept": self.kept,
            f"kept_{codec}": self.kept_compressed,
            "written": self.written,
            f"written_{codec}": self.written_compressed,
        }
        return {name: round(size / self.records, 4) for name, size in sizes.items()}


def recorded(settings: TrackingSettings, ids: bytes, *, compress: _Compress = len, delivers: bool = False) -> Weighed:
    """Record these messages, as published or as delivered, at 5,000 a second, and stop in order."""
    recorder = Recorder(_BROKER, settings, now_ms=_START_MS)
    weighed = Weighed(len(ids) // _ID_BYTES)
    subscribers = [subscriber_key(f"subscriber-{number}") for number in range(_SUBSCRIBERS)]
    turn_bytes = _TURN_MS * _PER_MS * _ID_BYTES
    for place in range(0, len(ids), turn_bytes):
        now_ms = _START_MS + (place // turn_bytes + 1) * _TURN_MS
        turn = ids[place : place + turn_bytes]
        if delivers:
            recorder.record_delivered(_BROKER, turn, subscribers[: len(turn) // _ID_BYTES], now_ms=now_ms)
        else:
            recorder.record_published(turn, now_ms=now_ms)
        recorder.on_deadline(now_ms=now_ms)
        _store(recorder, weighed, compress)
    recorder.stop(now_ms=_START_MS + len(ids) // _ID_BYTES // _PER_MS + _TURN_MS)
    _store(recorder, weighed, compress)
    return weighed


def _store(recorder: Recorder, weighed: Weighed, compress: _Compress) -> None:
    taken = recorder.take()
    for keep in taken:
        weighed.add(keep, compress)
    recorder.on_kept(taken)


def _run(context: Context) -> Mapping[str, float]:
    codec, compress = _codec(context)
    metrics = _full(context)
    ids = _ids(1_000 * context.integer("seconds") * _PER_MS)
    listed = list(configurations())
    context.reporter.stage(f"{len(listed)} configurations, {context.integer('seconds')} s each", total=len(listed))
    found: dict[tuple[Configuration, bool], dict[str, float]] = {}
    for each in listed:
        for keep_filling in (False, True) if each.row else (False,):
            weighed = recorded(each.settings(keep_filling=keep_filling), ids, compress=compress)
            found[each, keep_filling] = sizes = weighed.per_message(codec)
            way = "" if not each.row else "_filling" if keep_filling else "_sealing"
            metrics |= {f"{name}{way}_{each.metric}": size for name, size in sizes.items()}
        context.reporter.advance()
    metrics |= _worst(found)
    context.figure(lambda figure: _draw(figure, found, codec))
    return metrics


def _full(context: Context) -> dict[str, float]:
    """Weigh histories that seal only full filters, and count the records between two forces."""
    context.reporter.stage("full filters and buffers", total=len(TABLE_2) + len(BUFFERS))
    metrics: dict[str, float] = {}
    for row, shape in TABLE_2.items():
        buffer_bytes = BUFFERS[row.partition("-")[0]]
        settings = TrackingSettings(
            shape=shape, efpp=ROW_EFPP[row], buffer_bytes=buffer_bytes, persist_ms=_NEVER_MS, keep_filling=False
        )
        weighed = recorded(settings, _ids(_FULL_FILTERS * shape.n))
        metrics[f"full_{metric_of(row)}"] = round(weighed.kept / weighed.records, 4)
        metrics[f"full_bits_{metric_of(row)}"] = round(weighed.forces * shape.size_bytes / weighed.records, 4)
        metrics[f"records_per_force_{metric_of(row)}"] = weighed.records / weighed.forces
        context.reporter.advance()
    for buffer_bytes in BUFFERS.values():
        settings = TrackingSettings(strategy="exact", buffer_bytes=buffer_bytes, persist_ms=_NEVER_MS)
        ids = _ids(_FULL_FILTERS * (buffer_bytes // _ID_BYTES))
        published, delivered = recorded(settings, ids), recorded(settings, ids, delivers=True)
        name = f"exact_{buffer_bytes // 1_000}k"
        metrics[f"full_{name}"] = round(published.kept / published.records, 4)
        metrics[f"full_delivered_{name}"] = round(delivered.kept / delivered.records, 4)
        metrics[f"records_per_force_{name}"] = published.records / published.forces
        context.reporter.advance()
    return metrics


def _worst(found: Mapping[tuple[Configuration, bool], Mapping[str, float]]) -> dict[str, float]:
    """How far sizes are from those of full filters at worst, over all intervals."""
    over = [(fills, sizes["kept"] / FULL_BYTES[each.row]) for (each, fills), sizes in found.items() if each.row]
    again = max(sizes["written"] / sizes["kept"] for (_, fills), sizes in found.items() if fills)
    return {
        "kept_over_full_filling_worst": round(max(ratio for fills, ratio in over if fills), 4),
        "kept_over_full_sealing_worst": round(max(ratio for fills, ratio in over if not fills), 4),
        "written_over_kept_filling_worst": round(again, 2),
    }


def _ids(count: int) -> bytes:
    return np.stack(message_columns(count, publisher=1, start_ms=_START_MS), axis=1).astype(">u8").tobytes()


def _codec(context: Context) -> tuple[str, _Compress]:
    """The name of the available compression, and a function that returns the compressed size of a value."""
    try:
        from pyarrow import Codec
    except ImportError:
        context.reporter.note("compressed by gzip: for zstd install pyarrow (pip install 'penstock[spark]')")
        return "gzip", lambda value: len(zlib.compress(value))
    codec = Codec("zstd")
    return "zstd", lambda value: len(codec.compress(value))


def _draw(figure: Figure, found: Mapping[tuple[Configuration, bool], Mapping[str, float]], codec: str) -> None:
    figure.set_size_inches(13, 11)
    axes = figure.subplots(1, 2, sharey=True)
    listed = list(dict.fromkeys(each for each, _ in found))
    for one, suffix, title in zip(axes, ("", f"_{codec}"), ("uncompressed", f"compressed ({codec})"), strict=True):
        _panel(one, found, listed, suffix)
        one.set(title=title, xscale="log", xlabel="bytes per message and history")
        one.grid(visible=True, axis="x", which="major", alpha=0.3)
    axes[0].set_yticks(range(len(listed)), [each.label for each in listed])
    axes[0].set_ylim(len(listed) - 0.4, -0.6)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    figure.suptitle("Storage of tracking at 5,000 messages/s, by configuration")


def _panel(
    axes: Axes,
    found: Mapping[tuple[Configuration, bool], Mapping[str, float]],
    listed: list[Configuration],
    suffix: str,
) -> None:
    looks = (("exact records", "C7", 0.0), ("sealed at Tp", "C1", -0.2), ("kept on filling", "C0", 0.2))
    for way, (label, colour, shift) in enumerate(looks):
        chosen = [
            (place + shift, found[each, way == 2])
            for place, each in enumerate(listed)
            if (each, way == 2) in found and bool(each.row) is (way > 0)
        ]
        places = [place for place, _ in chosen]
        kept = [sizes[f"kept{suffix}"] for _, sizes in chosen]
        axes.barh(places, kept, height=0.4, color=colour, label=f"{label}: kept")
        if way == 2:
            written = [sizes[f"written{suffix}"] for _, sizes in chosen]
            axes.plot(written, places, "k>", markersize=5, label=f"{label}: written")
    if not suffix:
        full = [(FULL_BYTES[each.row], place) for place, each in enumerate(listed) if each.row]
        axes.plot(*zip(*full, strict=True), "r|", markersize=14, label="full filters, published")


TRACKING_STORAGE: Final = Experiment(
    name="tracking-storage",
    summary="Bytes that tracking keeps and writes for a message, by strategy, buffer and interval",
    source="[Tracking] section 5, Table 2 and figures 4 and 5",
    parameters=(Parameter("seconds", 600, "seconds of messages, virtual", quick=120, minimum=30, maximum=3_600),),
    published={
        **{f"full_{metric_of(row)}": size for row, size in FULL_BYTES.items()},
        "full_exact_10k": 16,
        "full_exact_135k": 16,
        "records_per_force_exact_10k": 625,
        "records_per_force_exact_135k": 8_437,
        **{f"records_per_force_{metric_of(row)}": shape.n for row, shape in TABLE_2.items()},
        "kept_over_full_filling_worst": "at most 1.1",
    },
    run=_run,
)
