"""Garbage collection in steps: what survives a look is set aside, and looked at again when there is twice as much."""

from __future__ import annotations

import gc

from penstock.live.collecting import Collecting, collecting_in_steps


class Heap:
    """Counts what it is told to do."""

    def __init__(self) -> None:
        self.blocks = 10
        self.calls: list[str] = []
        self.collecting = Collecting(
            blocks=lambda: self.blocks,
            set_aside=lambda: self.calls.append("set aside"),
            take_back=lambda: self.calls.append("take back"),
            blocks_min=100,
        )

    def look(self, generation: int = 2) -> str:
        """A look of the interpreter; answers with what was done at its end."""
        self.calls.clear()
        for phase in ("start", "stop"):
            self.collecting.on_look(phase, {"generation": generation})
        return " ".join(self.calls)


def test_what_survives_a_look_at_the_oldest_is_set_aside() -> None:
    heap = Heap()
    assert heap.look(0) == heap.look(1) == ""
    assert heap.look() == "set aside"


def test_everything_is_looked_at_once_when_there_is_twice_as_much() -> None:
    heap = Heap()
    heap.blocks = 99
    assert heap.look() == "set aside"
    heap.blocks = 100
    assert [heap.look(), heap.look(), heap.look()] == ["take back", "set aside", "set aside"]
    heap.blocks = 199
    assert heap.look() == "set aside"
    heap.blocks = 200
    assert [heap.look(), heap.look(), heap.look()] == ["take back", "set aside", "set aside"]


def test_afterwards_the_interpreter_collects_as_before() -> None:
    thresholds, callbacks = gc.get_threshold(), list(gc.callbacks)
    with collecting_in_steps():
        assert gc.get_freeze_count() > 0
        assert gc.get_threshold() != thresholds
        assert len(gc.callbacks) == len(callbacks) + 1
    assert gc.get_freeze_count() == 0
    assert gc.get_threshold() == thresholds
    assert gc.callbacks == callbacks
