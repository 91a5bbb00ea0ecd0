"""Measures what a plan achieves and costs, on the workload and machines of the experiment ``balancing-local``.

2,000 subscriptions to quotes, a quarter of them without traffic, on four brokers of power 1, 2, 4 and 10, by the cost
model of balancing: 0.6 Mbit/s and 200 µs + 210 µs for each subscription at power 1. The profile is made by the function
that Spark's tasks run, in this process, and measured in processor time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from time import process_time
from typing import Any

import numpy as np

from bench.report import Report
from penstock.cli.pipeline.profile import balancing_difference
from penstock.model.reporting import Reporter
from penstock.pipeline.profile.bits import bits_of
from penstock.pipeline.profile.capacities import parse_capacities, parse_capacity
from penstock.pipeline.profile.matching import matched, matcher_of
from penstock.pipeline.profile.model import Profile, ProfiledSubscription, Window
from penstock.pipeline.profile.placement import BrokerPlan, plan_placement
from penstock.pipeline.source.decoding import text_of
from penstock.selectors.selector import Selector
from penstock.sim.workloads import QuoteWorkload

__all__ = ["run"]

_RATE = 20.0
"""Messages per second: 40 publishers with up to 60 per minute."""
_BYTES = 200
_BATCH = 4_096
_RESULT = Path("docs/results/balancing-local.json")


def run(reporter: Reporter, *, seed: int = 0, quick: bool = False) -> Iterator[Report]:
    """Profile and plan."""
    count, messages = (200, 2_000) if quick else (2_000, 72_000)
    workload = QuoteWorkload(Random(seed))
    texts = [*workload.subscriptions(count * 3 // 4), *(f"symbol = 'none {place}'" for place in range(count // 4))]
    reporter.stage(f"matching {messages:,} messages with {count:,} subscriptions")
    profile, cpu_s = _profiled(texts, workload, messages)
    capacities = parse_capacities(["B1=1,B2=2,B3=4,B4=10"], parse_capacity("0.6mbps:200us+210us"))
    reporter.stage("placing")
    started = process_time()
    plan = plan_placement(profile, capacities)
    plan_s = process_time() - started
    figures = {
        "plan_max_difference": plan.max_difference,
        "profile_cpu_us_per_message": 1e6 * cpu_s / messages,
        "plan_cpu_s": plan_s,
        **{f"subscribers_{each.broker}": each.subscriptions for each in plan.brokers},
    }
    if _RESULT.exists():
        figures["balancing_max_difference"] = balancing_difference(_RESULT)
    title = f"plan for {count:,} subscriptions, {messages:,} messages"
    yield Report(
        title, ("broker", "subscriptions", "input", "output", "delay s"), [_row(each) for each in plan.brokers]
    )
    yield Report("figures", ("figure", "value"), list(figures.items()), figures)


def _profiled(texts: list[str], workload: QuoteWorkload, messages: int) -> tuple[Profile, float]:
    numbers: dict[str, int] = {}
    subscriptions = [
        ProfiledSubscription(
            "B1",
            place,
            f"s{place}",
            is_durable=False,
            selector=numbers.setdefault(str(Selector.parse(text)), len(numbers)),
        )
        for place, text in enumerate(texts)
    ]
    selectors = tuple(numbers)
    batches = list(_batches(workload, messages))
    matcher_of(selectors)
    started = process_time()
    told = [row for batch in matched(iter(batches), selectors) for row in batch.to_pylist()]
    cpu_s = process_time() - started
    counts, sizes = np.zeros(len(selectors), np.int64), np.zeros(len(selectors), np.int64)
    for row in told:
        if row["sample"] is None:
            counts[row["selector"]], sizes[row["selector"]] = row["messages"], row["bytes"]
    samples = [row["wanted"] for row in told if row["sample"] is not None]
    window = Window(0, round(1000 * messages / _RATE), messages, messages * _BYTES, len(samples))
    bits = bits_of(len(selectors), samples)
    return Profile("bench", window, selectors, counts, sizes, bits, subscriptions, []), cpu_s


def _batches(workload: QuoteWorkload, messages: int) -> Iterator[Any]:
    """Archived messages, as Spark hands them to its tasks."""
    import pyarrow as pa

    quotes = workload.sample(messages)
    for start in range(0, messages, _BATCH):
        some = quotes[start : start + _BATCH]
        pairs = [[(name, text_of(value)) for name, value in quote.items()] for quote in some]
        sample = [str(start + place) if (start + place) % 5 == 0 else None for place in range(len(some))]
        columns = {
            "attributes": pa.array(pairs, pa.map_(pa.string(), pa.string())),
            "bytes": pa.array([_BYTES] * len(some)),
            "sample": pa.array(sample, pa.string()),
        }
        yield pa.RecordBatch.from_pydict(columns)


def _row(each: BrokerPlan) -> tuple[str, float, float, float, float]:
    return each.broker, each.subscriptions, each.input, each.output, each.delay_s
