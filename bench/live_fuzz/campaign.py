"""Runs the campaign ``live`` of the soak: rounds on real processes, one seed each, for some seeds or some minutes."""

from __future__ import annotations

import shutil
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from bench.live_fuzz.judge import FuzzVerdict, judge_round
from bench.live_fuzz.plan import BLOWS, RoundPlan, draw_round
from bench.live_fuzz.world import Played, play_round
from penstock.cli.console import console, shown_number
from penstock.lab.links.ending import ending_in_order
from penstock.sim.delivery_run import Failure
from penstock.system.loop import run

__all__ = ["LIVE", "LiveOptions", "live_campaign"]

LIVE: Final = "live"
_FAULTS_SHOWN: Final = 8
"""Faults printed per round; the rest are in its journals."""
_INTERRUPTED: Final = 130
"""The exit code after Ctrl-C, as for all commands of Penstock."""
_FAULTY_ROUNDS_MAX: Final = 10
"""Rounds with faults after which the campaign stops: each keeps a folder, and more would only repeat the story."""


@dataclass(slots=True, frozen=True)
class LiveOptions:
    """Which rounds to play."""

    first: int
    rounds: int
    minutes: float | None = None
    """Play until this time is over, however many rounds that takes."""
    off: tuple[str, ...] = ()
    """Known behaviours that are not required."""


@dataclass(slots=True)
class _Sum:
    """Totals over all rounds."""

    rounds: int = 0
    faulty_rounds: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    blows: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    left_out: dict[str, None] = field(default_factory=dict)


def live_campaign(options: LiveOptions) -> list[Failure]:
    """Play the rounds, print the results, and return the failures."""
    started_s = time.monotonic()
    total = _Sum()
    try:
        with ending_in_order():
            for seed in _seeds(options, started_s):
                _play(seed, options, total)
                _tell(seed, total, time.monotonic() - started_s)
                if total.faulty_rounds == _FAULTY_ROUNDS_MAX:
                    console.note(f"stopped at seed {seed}, after {total.faulty_rounds} rounds with faults")
                    break
    except KeyboardInterrupt:
        console.note("interrupted; the round that was being played does not count")
        _print_table(total, time.monotonic() - started_s)
        raise SystemExit(_INTERRUPTED) from None
    _print_table(total, time.monotonic() - started_s)
    return total.failures


def _tell(seed: int, total: _Sum, seconds: float) -> None:
    counts = total.counts
    console.note(
        f"seed {seed}: {total.rounds} rounds, {seconds:.0f} s, {counts['acknowledged']:,} acknowledged, "
        f"{counts['delivered']:,} delivered, {total.blows.total()} blows, {len(total.failures)} faults"
    )


def _seeds(options: LiveOptions, started_s: float) -> Iterator[int]:
    seed = options.first
    while True:
        if options.minutes is None:
            if seed >= options.first + options.rounds:
                return
        elif time.monotonic() - started_s >= options.minutes * 60:
            return
        yield seed
        seed += 1


def _play(seed: int, options: LiveOptions, total: _Sum) -> None:
    """Play one round; its folder is kept if something was wrong."""
    plan = draw_round(seed, options.off)
    folder = Path(tempfile.mkdtemp(prefix=f"penstock-live-{seed}-"))
    (folder / "plan.json").write_bytes(msgspec.json.format(msgspec.json.encode(plan)))
    try:
        played = run(play_round(plan, folder))
    except KeyboardInterrupt:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    except Exception:  # noqa: BLE001 - the fuzz itself failed: that is told, and the next seed gets its turn
        played = Played(crashes=[traceback.format_exc()])
    verdict = judge_round(plan, folder)
    total.rounds += 1
    total.counts += verdict.counts
    total.counts["client restarts"] += played.lives
    total.blows += played.blows
    total.events += played.events
    if played.left_out:
        total.left_out[played.left_out] = None
    found = _faults(played, verdict)
    if not found:
        shutil.rmtree(folder, ignore_errors=True)
        return
    total.faulty_rounds += 1
    total.failures += [failure for failure, _ in found]
    for reserve in folder.glob("data/*/reserve"):
        # 48 MiB per broker, without any information.
        reserve.unlink()
    console.note(_story(plan, folder, found))


def _faults(played: Played, verdict: FuzzVerdict) -> list[tuple[Failure, str]]:
    return [
        *((Failure.CRASH, text) for text in played.crashes),
        *((Failure.BROKEN_LAW, text) for text in verdict.faults),
        *((Failure.NO_PROGRESS, text) for text in played.stuck),
    ]


def _story(plan: RoundPlan, folder: Path, found: Sequence[tuple[Failure, str]]) -> str:
    lines = [f"FAULT in campaign {LIVE}, seed {plan.seed}: {len(found)} faults; journals and logs are in {folder}"]
    lines.append(f"  {len(plan.pubends)} brokers, links {plan.links}, {plan.limits}")
    lines += [f"  {failure.value}: {text}" for failure, text in found[:_FAULTS_SHOWN]]
    lines.append(f"again: python -m bench.soak --campaign {LIVE} --seeds 1 --first {plan.seed}")
    return "\n".join(lines)


def _print_table(total: _Sum, seconds: float) -> None:
    counts = total.counts
    rows = {
        "rounds": total.rounds,
        "seconds": round(seconds),
        "messages acknowledged": counts["acknowledged"],
        "messages delivered": counts["delivered"],
        **{f"blows: {kind}": total.blows[kind] for kind in BLOWS},
        "blows in all": sum(total.blows[kind] for kind in BLOWS),
        "calls cancelled": counts["cancelled"],
        "forks": counts["fork"],
        "client processes started again": counts["client restarts"],
        "lives of subscriptions": counts["lives"],
        "lost notices, excused": counts["excused notices"],
        **{f"broker event: {event}": count for event, count in sorted(total.events.items())},
        "faults": len(total.failures),
    }
    console.table(
        f"campaign {LIVE}",
        {"what": "left", "count": "right"},
        iter([(what, shown_number(count)) for what, count in rows.items()]),
    )
    for reason in total.left_out:
        console.line(f"full disks were left out: {reason}")
