"""Whatever is kept, removed and interrupted: what was committed is there and nothing else, in both worlds."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from live.store.kept_support import filter_record
from penstock.broker.durable import KeepRecord, Recovered, needed_at_start
from penstock.broker.effects import Commit, ReadKept
from penstock.live.store import LogStore
from penstock.live.store.database import FILE_NAME
from penstock.live.store.witness import WITNESS_NAME
from penstock.sim.clock import Clock
from penstock.sim.device import Device, DeviceUser

NAMES = ("mark", "since/filter", "attachment/1", *(filter_record(number).name for number in range(3)))

small = st.builds(KeepRecord, st.sampled_from(NAMES[:3]), st.none() | st.binary(max_size=40))
filters = st.builds(
    filter_record, st.integers(0, 2), is_open=st.booleans(), generation=st.integers(1, 9), size_bytes=st.just(8_192)
)
removals = st.builds(KeepRecord, st.sampled_from(NAMES), st.none())
commits = st.lists(small | filters | removals, min_size=1, max_size=5)

State = dict[str, bytes]


def after(before: Mapping[str, bytes], records: list[KeepRecord]) -> State:
    """What there is then, in the order in which it was kept."""
    state = dict(before)
    for each in records:
        state.pop(each.name, None)
        if each.value is not None:
            state[each.name] = each.value
    return state


def check_found(recovered: Recovered, state: State) -> None:
    expected = [(name, needed_at_start(name, value)) for name, value in state.items()]
    assert list(recovered.kept.items()) == expected


class LiveModel(RuleBasedStateMachine):
    """The live store, in one folder after the other: a crash is a copy of the files while the store is open."""

    def __init__(self) -> None:
        super().__init__()
        self.root = tempfile.TemporaryDirectory()
        self.lives = 0
        # All states since the write-ahead log was begun; the last one is acknowledged.
        self.states: list[State] = [{}]
        self.open(Path(self.root.name) / "0")

    def open(self, folder: Path) -> None:
        self.folder = folder
        self.store = LogStore.open(folder, overlay="o", broker="b1", reserve_bytes=0)

    def teardown(self) -> None:
        self.store.close()
        self.root.cleanup()

    @rule(records=commits)
    def commit(self, records: list[KeepRecord]) -> None:
        self.store.commit(records)
        self.states.append(after(self.states[-1], records))

    @rule()
    def start_anew(self) -> None:
        self.store.close()
        self.open(self.folder)
        self.states = self.states[-1:]

    @rule(torn_bytes=st.just(0) | st.integers(1, 60_000))
    @precondition(lambda self: len(self.states) > 1)
    def crash(self, torn_bytes: int) -> None:
        self.lives += 1
        copy = Path(self.root.name) / str(self.lives)
        shutil.copytree(self.folder, copy)
        log = copy / f"{FILE_NAME}-wal"
        size = log.stat().st_size
        if self.lives == 1:
            # The making of the first store lies at the beginning of its log.
            torn_bytes = min(torn_bytes, 4_000)
        with log.open("r+b") as file:
            file.truncate(max(0, size - torn_bytes))
        if torn_bytes:
            # As after a power failure, which the witness may not have survived: it would tell that commits are missing.
            (copy / WITNESS_NAME).unlink()
        self.store.close()
        shutil.rmtree(self.folder)
        self.open(copy)
        self.states = [self.whole_state(torn_bytes)]

    def whole_state(self, torn_bytes: int) -> State:
        """The one of all states that the torn log still gives; with nothing torn it is the last."""
        found = self.store.recovered().kept
        candidates = self.states if torn_bytes else self.states[-1:]
        for state in reversed(candidates):
            if list(found.items()) == [(name, needed_at_start(name, value)) for name, value in state.items()]:
                return state
        raise AssertionError(f"found {list(found)}, which never was")

    @invariant()
    def what_was_committed_is_there_and_nothing_else(self) -> None:
        state = self.states[-1]
        check_found(self.store.recovered(), state)
        part = self.store.read_kept(NAMES, bytes_max=1 << 20)
        assert (part.values, part.damaged) == ({name: state.get(name) for name in NAMES}, [])
        (bodies,) = self.store._database.execute("SELECT count(*) FROM kept_bodies").fetchone()
        assert bodies == len(state)


class SimModel(RuleBasedStateMachine):
    """The simulated device, with commits that wait, are under way or durable."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.answers: list[dict[str, bytes | None]] = []
        user = DeviceUser(
            self.on_committed,
            lambda _number: None,
            lambda _reason: None,
            lambda *_found: None,
            lambda _number, values: self.on_read(values),
        )
        self.device = Device(self.clock, Random(7), user)
        self.number = self.told = 0
        self.states: dict[int, State] = {0: {}}

    def on_committed(self, number: int) -> None:
        self.told = number

    def on_read(self, values: dict[str, bytes | None]) -> None:
        self.answers.append(values)

    @rule(records=commits)
    def commit(self, records: list[KeepRecord]) -> None:
        self.states[self.number + 1] = after(self.states[self.number], records)
        self.number += 1
        self.device.commit(Commit(self.number, tuple(records)))

    @rule(duration_us=st.integers(0, 5_000))
    def wait(self, duration_us: int) -> None:
        self.clock.run_for(duration_us)

    @rule()
    def crash(self) -> None:
        self.device.crash()
        found = self.device.disk.read_kept(NAMES)
        order = list(self.device.disk.recovered().kept)
        # What was acknowledged counts, and of the rest whole commits from the first on.
        possible = [
            number
            for number in range(self.told, self.number + 1)
            if found == {name: self.states[number].get(name) for name in NAMES} and order == list(self.states[number])
        ]
        assert possible, f"found {found}, which never was since commit {self.told}"
        self.number = self.told = possible[0]

    @rule()
    def stop(self) -> None:
        self.device.stop()
        self.told = self.number

    @rule()
    def read(self) -> None:
        self.device.slowness = 1
        self.clock.run_for(10_000)
        assert self.told == self.number
        self.answers.clear()
        self.device.read(ReadKept(1, NAMES))
        self.clock.run_for(10_000)
        assert self.answers == [{name: self.states[self.number].get(name) for name in NAMES}]

    @invariant()
    def what_was_told_is_there_and_nothing_else(self) -> None:
        check_found(self.device.disk.recovered(), self.states[self.told])
        assert self.device.disk.size_bytes == sum(map(len, self.states[self.told].values()))


def test_the_live_store_keeps_what_was_committed_and_nothing_else() -> None:
    run_state_machine_as_test(LiveModel, settings=settings(max_examples=30, stateful_step_count=20, deadline=None))


def test_the_simulated_disk_keeps_what_was_committed_and_nothing_else() -> None:
    run_state_machine_as_test(SimModel, settings=settings(max_examples=50, stateful_step_count=25, deadline=None))
