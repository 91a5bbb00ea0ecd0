"""Runs one attack from start to end: brokers, honest pair, attacker, costs, and whether anybody was harmed."""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Final

import msgspec

from bench.hostile.arena import Arena
from bench.hostile.catalogue import ATTACKS, Attack
from bench.hostile.honest import HonestSpec, Seen
from bench.hostile.stage import Stage, Told
from bench.hostile.trees import Tree

__all__ = ["Outcome", "fight"]

_READY_S_MAX: Final = 90.0
_END_S_MAX: Final = 60.0
_SETTLE_S: Final = 1.0
_MEMORY_MIB_MAX: Final = 300.0
_STALL_MS_MAX: Final = 1_000.0


class Outcome(msgspec.Struct):
    """The outcome of one attack on one tree."""

    attack: str
    tree: str
    is_harmed: bool
    """Whether anything was not as it should be."""
    has_succeeded: bool
    """Whether the attacker got what it wanted."""
    told: str
    """What the attacker achieved, in its own words; or why the broker did not start."""
    exits: dict[str, int] = {}
    """Exit codes of brokers that ended by themselves."""
    before_mib: float = 0.0
    peak_mib: float = 0.0
    after_mib: float = 0.0
    busy: float = 0.0
    """The share of a processor that the busiest broker used."""
    honest: Seen | None = None
    figures: dict[str, float] = {}

    def text(self) -> str:
        """The outcome in short."""
        parts = [f"{name} exits with {code}" for name, code in self.exits.items()]
        if self.peak_mib:
            parts.append(f"{self.before_mib:.0f} → {self.peak_mib:.0f} MiB, {self.busy:.0%} of a processor")
        if self.honest is not None:
            seen = self.honest
            parts.append(f"stall {seen.stall_ms:,.0f} ms")
            if missing := seen.published - seen.received:
                parts.append(f"{missing:,} not delivered")
            if seen.reconnects:
                parts.append(f"{seen.reconnects} reconnects")
            if seen.error:
                parts.append(f"the honest failed: {seen.error}")
        return "; ".join([*parts, self.told])


def fight(
    tree: Tree,
    name: str,
    *,
    seconds: float,
    tail_s: float = 5.0,
    parent: Path | None = None,
    inputs: int = 20_000,
    seed: int = 0,
) -> Outcome:
    """Carry out an attack against brokers of a tree, whose files are in a folder below ``parent``.

    ``inputs`` and ``seed`` are for attacks that are generated. When it is over, the honest pair waits up to ``tail_s``
    for missing messages.
    """
    attack = ATTACKS[name]
    temporary = TemporaryDirectory(prefix="penstock-hostile-", dir=parent)
    with temporary as folder, Arena(tree, attack.plan, Path(folder)) as arena:
        if arena.refusal:
            is_wrong = not attack.may_not_start
            return Outcome(name, tree.label, is_wrong, False, f"does not start: {arena.refusal}")  # noqa: FBT003 - a field
        if attack.plan.waits_for_links:
            _await_links(arena)
        honest = _Honest(arena, attack, tail_s) if attack.rate_s else None
        if honest is not None:
            honest.wait_until_ready()
        arena.begin()
        told = _attacked(arena, name, attack, (seconds, inputs, seed))
        busy = arena.busy()
        time.sleep(_SETTLE_S)
        seen = honest.end() if honest is not None else None
        memory, exits = arena.memory, arena.exits()
        is_harmed = told.has_succeeded or bool(exits) or memory.peak > _MEMORY_MIB_MAX or _suffers(seen, attack)
        return Outcome(
            name,
            tree.label,
            is_harmed,
            told.has_succeeded,
            told.text,
            exits,
            memory.before,
            memory.peak,
            memory.after,
            busy,
            seen,
            told.figures,
        )


def _suffers(seen: Seen | None, attack: Attack) -> bool:
    if seen is None:
        return False
    is_late = seen.stall_ms > _STALL_MS_MAX or seen.p99_ms > (attack.p99_ms_max or _STALL_MS_MAX)
    return is_late or bool(seen.error or seen.received < seen.published or seen.reconnects)


def _await_links(arena: Arena) -> None:
    """Wait until the first broker reports a link."""
    deadline_s = time.monotonic() + _READY_S_MAX
    first = arena.plan.brokers[0]
    while "link-up" not in arena.log(first) and time.monotonic() < deadline_s and not arena.exits():
        time.sleep(0.05)


def _attacked(arena: Arena, name: str, attack: Attack, size: tuple[float, int, int]) -> Told:
    stage = Stage(
        arena.ports,
        str(arena.folder),
        arena.pids,
        {each: str(arena.folder / f"{each}.log") for each in arena.plan.brokers},
        *size,
    )
    try:
        done = subprocess.run(
            arena.tree.module("bench.hostile.attacker", name),
            input=msgspec.json.encode(stage),
            stdout=subprocess.PIPE,
            env=arena.tree.environment(),
            timeout=attack.limit_s + _END_S_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Told("the attacker did not come back")
    if not done.stdout:
        return Told(f"the attacker failed with {done.returncode}")
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=Told)


class _Honest:
    """The process of the honest publisher and subscriber."""

    def __init__(self, arena: Arena, attack: Attack, tail_s: float) -> None:
        self._tail_s = tail_s
        brokers = arena.plan.brokers
        spec = HonestSpec(
            arena.url(brokers[0]),
            arena.url(brokers[-1]),
            attack.rate_s,
            tail_s,
            token=attack.token,
            certificates=str(arena.folder) if arena.plan.tls else "",
        )
        self._process = subprocess.Popen(
            arena.tree.module("bench.hostile.honest", msgspec.json.encode(spec).decode()),
            env=arena.tree.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def wait_until_ready(self) -> None:
        """Wait until its subscription is in force, or it has failed."""
        self._first = _pipe(self._process.stdout).readline()

    def end(self) -> Seen:
        """Stop it, and return what it saw."""
        with suppress(OSError):
            _pipe(self._process.stdin).write(b"\n")
            _pipe(self._process.stdin).flush()
        try:
            said, _ = self._process.communicate(timeout=_END_S_MAX + self._tail_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            return Seen(error="did not end")
        lines = (said or self._first).splitlines()
        return msgspec.json.decode(lines[-1], type=Seen) if lines else Seen(error="said nothing")


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe
