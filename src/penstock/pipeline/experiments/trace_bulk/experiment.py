"""Compares the bulk trace on Spark with a join with exact records and with filters asked one by one.

Generates lakes as the brokers of an overlay would have shipped them (``lake``). A separate process traces all messages;
its cost is the CPU time of its whole process tree. Then every trace is compared with the truth.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.lab.frame.errors import ParameterError
from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter
from penstock.pipeline.experiments.trace_bulk.lake import TracedOverlay, slabs, topics_of, write_lake
from penstock.tracking.settings import TrackingSettings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["TRACE_BULK", "Truth", "compare_traces"]

_LIMIT_S: Final = 3_600
_COMPARED: Final = ("id_high", "id_low", "receivers", "checked", "false_receivers")
_MEASURING: Final = "penstock.pipeline.experiments.trace_bulk.measuring"


@dataclass(slots=True)
class Truth:
    """How many traces are correct."""

    traces: int = 0
    receivers: int = 0
    """True receivers."""
    false_negatives: int = 0
    false_positives: int = 0
    expected: float = 0.0
    """False receivers that the traces themselves predict."""
    negative: int = 0
    """Checked subscribers that had not received the message."""


def compare_traces(overlay: TracedOverlay, folder: Path) -> Truth:
    """Compare the traces in a folder with the true receivers."""
    import pyarrow.parquet as pq

    names = sorted((broker, name) for broker, own in overlay.subscribers.items() for name in own)
    places = {each: place for place, each in enumerate(names)}
    wanted = np.zeros((len(overlay.wanted), len(names)), dtype=np.bool_)
    for topic, homes in enumerate(overlay.wanted):
        for home, own in homes.items():
            broker = overlay.names[home]
            wanted[topic, [places[broker, overlay.subscribers[broker][each]] for each in own]] = True
    truth = Truth()
    for path in sorted(folder.rglob("*.parquet")):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(100_000, columns=list(_COMPARED)):
                _compare(overlay, wanted, batch, truth)
    return truth


def _compare(overlay: TracedOverlay, wanted: NDArray[np.bool_], batch: Any, truth: Truth) -> None:
    high, low = (batch.column(name).to_numpy().view(np.uint64) for name in ("id_high", "id_low"))
    should = wanted[topics_of(overlay, high, low)]
    does = np.zeros_like(should)
    lists = batch.column("receivers")
    rows = np.repeat(np.arange(len(high)), lists.value_lengths().to_numpy())
    does[rows, lists.flatten().to_numpy()] = True
    truth.traces += len(high)
    truth.receivers += int(should.sum())
    truth.false_negatives += int((should & ~does).sum())
    truth.false_positives += int((does & ~should).sum())
    truth.expected += float(np.sum(batch.column("false_receivers").to_numpy()))
    truth.negative += int(np.sum(batch.column("checked").to_numpy())) - int((should & does).sum())


def _run(context: Context) -> Mapping[str, float]:
    messages, beside = context.integer("messages"), context.integer("beside")
    overlay = TracedOverlay(
        context.seed,
        brokers=context.integer("brokers"),
        subscribers=context.integer("subscribers"),
        topics=context.integer("topics"),
        origins=4,
    )
    checked = max(context.integer("subscribers") // context.integer("brokers"), 1)
    settings = TrackingSettings(efpp=context.number("efpp"), subscribers_checked=checked)
    with tempfile.TemporaryDirectory(prefix="penstock-") as name:
        folder = Path(name)
        context.reporter.stage(f"making a lake of {beside:,} messages, twice", total=2)
        small = write_lake(folder / "small", overlay, settings, beside)
        context.reporter.advance()
        exact = write_lake(folder / "exact", overlay, settings, beside, exact=True)
        context.reporter.advance()
        measured = _measured(context, folder, overlay, beside, lake="small", exact_lake=str(folder / "exact"))
        truth = compare_traces(overlay, folder / "out" / "bulk")
        large = {"bulk": measured["bulk"]}
        if messages > beside:
            context.reporter.stage(f"making a lake of {messages:,} messages")
            write_lake(folder / "large", overlay, settings, messages)
            large = _measured(context, folder, overlay, messages, lake="large")
            truth = compare_traces(overlay, folder / "out" / "bulk")
    context.figure(lambda figure: _draw(figure, measured, large["bulk"]))
    cpu = {job: 1e6 * each["cpu_s"] / each["ids"] for job, each in measured.items()}
    return {
        "ids": large["bulk"]["ids"],
        "cpu_us_per_id": 1e6 * large["bulk"]["cpu_s"] / large["bulk"]["ids"],
        "cpu_us_per_id_exact": cpu["exact"],
        "cpu_us_per_id_filterwise": cpu["filterwise"],
        "cpu_us_per_id_beside": cpu["bulk"],
        "ids_beside": beside,
        "seconds": large["bulk"]["wall_s"],
        "false_negatives": truth.false_negatives,
        "false_positive_rate": truth.false_positives / max(truth.negative, 1),
        "false_positive_theory": truth.expected / max(truth.negative, 1),
        "receivers_per_message": truth.receivers / truth.traces,
        "checks_per_message": truth.negative / truth.traces,
        "events_per_message": small.events / beside,
        "bytes_per_message_bloom": small.raw / beside,
        "bytes_per_message_bloom_compressed": small.compressed / beside,
        "bytes_per_message_exact": exact.raw / beside,
        "bytes_per_message_exact_compressed": exact.compressed / beside,
    }


def _measured(
    context: Context, folder: Path, overlay: TracedOverlay, messages: int, *, lake: str, exact_lake: str = ""
) -> dict[str, dict[str, Any]]:
    """Run the jobs on a lake; returns their costs by name."""
    ids = folder / f"ids-{messages}.parquet"
    _write_ids(ids, overlay, messages)
    options = {
        "lake": str(folder / lake),
        "ids": str(ids),
        "out": str(folder / "out"),
        "exact_lake": exact_lake,
        "filterwise": bool(exact_lake),
        "rounds": context.integer("rounds") if exact_lake else 1,
        "master": f"local[{context.integer('cores')}]",
    }
    context.reporter.stage(f"tracing {messages:,} messages on Spark")
    done = subprocess.run(  # noqa: S603 - our own command, no shell
        [sys.executable, "-m", _MEASURING],
        input=msgspec.json.encode(options),
        capture_output=True,
        timeout=_LIMIT_S,
        check=False,
    )
    if done.returncode:
        raise ParameterError(f"the bulk trace failed: {done.stderr.decode(errors='replace').strip()[-500:]}")
    return {each["job"]: each for each in msgspec.json.decode(done.stdout)}


def _write_ids(path: Path, overlay: TracedOverlay, messages: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([("id_high", pa.int64()), ("id_low", pa.int64())])
    with pq.ParquetWriter(path, schema) as writer:
        for _, high, low in slabs(overlay, messages):
            writer.write_table(pa.table([high.view(np.int64), low.view(np.int64)], schema=schema))


def _draw(figure: Figure, measured: Mapping[str, Mapping[str, Any]], large: Mapping[str, Any]) -> None:
    """Plot CPU time per message, ours beside the others."""
    axes = figure.add_subplot()
    bars = list(_bars(measured, large))
    axes.barh([title for title, _, _ in bars], [value for _, value, _ in bars], color=[colour for _, _, colour in bars])
    for place, (_, value, _) in enumerate(bars):
        axes.annotate(f"{value:.1f}", (value, place), xytext=(4, 0), textcoords="offset points", va="center")
    # The prototype's figure for the bulk trace is for ten million messages.
    for value, place in ((27.0, 2), (15.0, 1), (5.0, 3 if len(bars) > 3 else 0)):
        axes.plot(value, place, "D", c="black", ms=5, zorder=3, label="prototype" if place == 2 else None)
    axes.invert_yaxis()
    axes.margins(x=0.1)
    axes.set_xlabel("processor time per message (µs)")
    axes.legend(loc="lower right")


def _bars(measured: Mapping[str, Mapping[str, Any]], large: Mapping[str, Any]) -> Iterator[tuple[str, float, str]]:
    titles = {"bulk": "bit-sliced filters", "filterwise": "filters one by one", "exact": "join with exact records"}
    for job, title in titles.items():
        each = measured[job]
        colour = "#4477aa" if job == "bulk" else "#bbbbbb"
        yield f"{title}\n{each['ids']:,} messages", 1e6 * each["cpu_s"] / each["ids"], colour
    if large["ids"] != measured["bulk"]["ids"]:
        yield f"bit-sliced filters\n{large['ids']:,} messages", 1e6 * large["cpu_s"] / large["ids"], "#4477aa"


TRACE_BULK: Final = Experiment(
    name="trace-bulk",
    summary="millions of messages traced on Spark: bit-sliced filters beside exact records and single filters",
    source="[Tracking] section 3.3, as a job",
    parameters=(
        Parameter("messages", 10_000_000, "messages to trace", quick=20_000, minimum=1_000, maximum=100_000_000),
        Parameter("beside", 1_000_000, "messages traced in all ways", quick=20_000, minimum=1_000, maximum=10_000_000),
        Parameter("brokers", 16, "brokers of the overlay", minimum=4, maximum=64),
        Parameter("subscribers", 320, "subscribers, all brokers together", minimum=16, maximum=10_000),
        Parameter("topics", 500, "topics, with ten subscribers each at three brokers", minimum=10, maximum=10_000),
        Parameter("efpp", 0.01, "false positive probability of a history", minimum=1e-6, maximum=0.2),
        Parameter("rounds", 2, "how often to run every method; only the last round counts", quick=1, maximum=10),
        Parameter("cores", 2, "cores that Spark uses", minimum=1, maximum=64),
    ),
    published={"cpu_us_per_id": 5, "cpu_us_per_id_exact": 27, "cpu_us_per_id_filterwise": 15, "false_negatives": 0},
    run=_run,
)
