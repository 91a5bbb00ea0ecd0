"""What the simulated experiments of the token have in common: parameters, sizes, and runs ([Token] section 5)."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Final

from penstock.lab.frame.errors import ParameterError
from penstock.lab.frame.experiment import Context
from penstock.lab.frame.parameters import Parameter
from penstock.lab.token.walk import UNIT_MS, Walk
from penstock.token.settings import SWIFT, VARIANTS, Constants

__all__ = ["NOMINAL", "OVERLOAD", "SIZES", "UNITS", "VARIANT", "constants_of", "walked"]

NOMINAL: Final = 150
OVERLOAD: Final = 300
SIZES: Final = (NOMINAL, OVERLOAD)

VARIANT: Final = Parameter("variant", SWIFT, "rules of the walk: paper, or swift (ours)")
UNITS: Final = Parameter("units", 1_000_000, "time units of each run", quick=100_000, minimum=10_000, maximum=1e8)


def constants_of(context: Context, *, growth: float | None = None) -> Constants:
    """Table 1, for the variant that was asked for; one unit is a second."""
    variant = context.text("variant")
    if variant not in VARIANTS:
        raise ParameterError(f"parameter variant: {variant!r} is neither {' nor '.join(VARIANTS)}")
    constants = Constants(variant=variant)
    return constants if growth is None else replace(constants, growth=growth)


def walked(context: Context, size: int) -> Walk:
    """A whole run."""
    walk = Walk(size, constants_of(context), Random(context.rng.getrandbits(64)))
    walk.run_until(context.integer("units") * UNIT_MS)
    return walk
