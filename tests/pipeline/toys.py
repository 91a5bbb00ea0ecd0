"""Small experiments to sweep, which are sent to Spark's workers as they are, since those cannot import tests."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final

from penstock.lab import Context, Experiment, Parameter


def _wave(context: Context) -> Mapping[str, float]:
    context.reporter.stage("waving", total=1)
    size = context.integer("size")
    # A chart that is drawn in a task would fail here, and so is noticed.
    context.figure(lambda _: 1 / 0)  # type: ignore[arg-type]
    return {"height": size + context.rng.random(), "seed_twice": 2 * context.seed, "constant": 1}


def _odd_fails(context: Context) -> Mapping[str, float]:
    if context.seed % 2:
        raise ValueError(f"seed {context.seed} is odd")
    return {"height": 1.0}


def _ends_worker(context: Context) -> Mapping[str, float]:
    import os

    if context.seed == 3:
        os._exit(7)
    return {"height": 1.0}


PARAMETERS: Final = (
    Parameter("size", 10, "how large", quick=1, minimum=1),
    Parameter("mode", "calm", "how"),
    Parameter("seed", 1.5, "a name that the table has for itself"),
)
WAVE: Final = Experiment("wave", "a toy", "nowhere", PARAMETERS, {}, _wave)
ODD_FAILS: Final = Experiment("odd-fails", "a toy", "nowhere", PARAMETERS, {}, _odd_fails)
ENDS_WORKER: Final = Experiment("ends-worker", "a toy", "nowhere", PARAMETERS, {}, _ends_worker)


def send_by_value() -> None:
    """Let Spark's pickler send the functions of this module with their code."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
