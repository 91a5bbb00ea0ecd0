"""Opens damaged stores by the hundred: no loss may be silent, and no complaint may mention Python."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Final

from bench.damage import run_seed
from bench.edge_fuzz.oracle import Findings, check_words
from bench.fuzzing import Fault

__all__ = ["STORES_PER_SEED", "stores_inside"]

STORES_PER_SEED: Final = 100
_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - each store gets a folder of its own there
"""A folder where syncs cost nothing; they guard against crashes, which do not happen here."""


def stores_inside(rng: Random) -> None:
    """One seed's share of a soak."""
    findings = Findings()
    folder = _MEMORY if _MEMORY.is_dir() else None
    for _ in range(STORES_PER_SEED):
        seed = rng.getrandbits(32)
        try:
            outcome = run_seed(seed, folder)
            if outcome.result == "silent":
                raise Fault(f"{outcome.kind} in {outcome.file} of a {outcome.state} store: {outcome.story}")
            check_words(outcome.story)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what we look for
            findings.add(error, f"again: python -m bench.damage --seeds 1 --first {seed}")
    findings.raise_if_any()
