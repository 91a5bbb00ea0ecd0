"""Counts the functions that one guaranteed message passes through: ``python -m bench.hops``.

A publisher, three brokers in a row and a subscriber run in virtual time. When everything is at rest, one message is
published, and until it is delivered every call of a Python function of Penstock is recorded, except the simulator's
own. So the figures come from a trace: functions, calls and files, by room.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import penstock
from penstock.sim.world import World

__all__ = ["main"]

_ROOT = Path(penstock.__file__).parent


def main() -> int:
    """Trace one message, and print what it passed through."""
    calls = traced()
    files = {file for file, _ in calls}
    print(f"{len(calls)} functions in {len(files)} files, {calls.total()} calls")
    rooms = Counter(file.partition("/")[0] for file, _ in calls)
    for room, functions in rooms.most_common():
        within = len({file for file in files if file.startswith(f"{room}/")})
        print(f"  {room}: {functions} functions in {within} files")
    return 0


def traced() -> Counter[tuple[str, str]]:
    """How often each function was called, by file and name, while one message went from publisher to subscriber."""
    world = World(seed=1)
    world.add_overlay([("ib", "pb"), ("sb", "ib")], guaranteed=True)
    publisher, subscriber = world.add_client("publisher", "pb"), world.add_client("subscriber", "sb")
    subscriber.subscribe("price > 10")
    assert world.run_until_ready()
    world.run_for(1_000)
    calls: Counter[tuple[str, str]] = Counter()
    places: dict[Any, tuple[str, str] | None] = {}

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            code = frame.f_code
            if code not in places:
                places[code] = _place(code.co_filename, code.co_qualname)
            place = places[code]
            if place is not None:
                calls[place] += 1

    sys.setprofile(note)
    try:
        publisher.publish({"price": 11.0})
        assert world.run_until(lambda: bool(subscriber.deliveries), limit_ms=1_000)
    finally:
        sys.setprofile(None)
    return calls


def _place(file: str, name: str) -> tuple[str, str] | None:
    path = Path(file)
    if not path.is_relative_to(_ROOT):
        return None
    within = path.relative_to(_ROOT).as_posix()
    return None if within.startswith("sim/") else (within, name)


if __name__ == "__main__":
    raise SystemExit(main())
