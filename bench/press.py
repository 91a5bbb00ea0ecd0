"""Measures PRESS on 10,000 subscriptions and 100 samples: bit vectors in whole rows against plain Python integers.

Both answer the same questions: the rate of every subscription, what it would add at a partner, and how much input
drops without it; both record 100 publications, each wanted by 4 in 100 subscriptions.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from random import Random
from time import thread_time

import numpy as np

from bench.report import Report
from penstock.balancing.press import Press
from penstock.cli.progress import ProgressReporter
from penstock.model.reporting import Reporter

__all__ = ["main", "run"]

_REPEATS = 7


def run(reporter: Reporter, *, seed: int = 0, quick: bool = False) -> Iterator[Report]:
    """Measure recording and asking; the seed chooses who wants what."""
    subscriptions, samples = (1_000, 50) if quick else (10_000, 100)
    reporter.stage("PRESS")
    rng = Random(seed)
    wanted = [sorted(rng.sample(range(subscriptions), subscriptions // 25)) for _ in range(samples)]
    columns = [np.array(each, np.int64) for each in wanted]
    report = Report(
        f"PRESS, {subscriptions:,} subscriptions, {samples} samples: ms", ("what", "vectors", "plain Python", "ratio")
    )
    press, plain = _recorded(columns, subscriptions), _recorded_plainly(wanted, subscriptions)
    for name, ours, theirs in (
        ("record", lambda: _recorded(columns, subscriptions), lambda: _recorded_plainly(wanted, subscriptions)),
        ("ask", lambda: _asked(press), lambda: _asked_plainly(plain)),
    ):
        fast, slow = _ms(ours), _ms(theirs)
        report.rows.append((name, fast, slow, slow / fast))
        report.figures.update({f"press_{name}_ms": fast, f"plain_{name}_ms": slow})
    assert _asked(press) == _asked_plainly(plain), "both give the same answers"
    report.figures["press_bits"] = press.bits.nbytes * 8.0
    yield report


def _recorded(columns: list[np.ndarray], subscriptions: int) -> Press:
    press = Press(subscriptions, samples_max=len(columns))
    for place, each in enumerate(columns):
        press.record(each, is_covered=place % 3 == 0)
    return press


def _recorded_plainly(wanted: list[list[int]], subscriptions: int) -> tuple[list[int], int, int]:
    vectors, css = [0] * subscriptions, 0
    for place, each in enumerate(wanted):
        bit = 1 << place
        for column in each:
            vectors[column] |= bit
        if place % 3 == 0:
            css |= bit
    return vectors, css, len(wanted)


def _asked(press: Press) -> tuple[float, float, float]:
    everybody = np.ones(press.bits.shape[1], np.bool_)
    answers = (press.rates(1.0), press.added_rates(1.0), press.reduced_rates(1.0, everybody))
    return tuple(round(float(each.sum()), 6) for each in answers)  # type: ignore[return-value]


def _asked_plainly(recorded: tuple[list[int], int, int]) -> tuple[float, float, float]:
    vectors, css, samples = recorded
    once = twice = 0
    for vector in vectors:
        twice |= once & vector
        once |= vector
    alone = once & ~twice
    rates = [vector.bit_count() / samples for vector in vectors]
    added = [(vector & ~css).bit_count() / samples for vector in vectors]
    reduced = [(vector & alone).bit_count() / samples for vector in vectors]
    return round(sum(rates), 6), round(sum(added), 6), round(sum(reduced), 6)


def _ms(work: Callable[[], object]) -> float:
    """The best of several runs, in processor time."""
    best = float("inf")
    for _ in range(_REPEATS):
        started = thread_time()
        work()
        best = min(best, thread_time() - started)
    return best * 1000


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.press", description="Times PRESS beside plain Python.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true")
    chosen = parser.parse_args(arguments)
    with ProgressReporter() as reporter:
        for report in run(reporter, seed=chosen.seed, quick=chosen.quick):
            report.show()
    return 0


if __name__ == "__main__":
    sys.exit(main())
