"""A store does what a dictionary would do, in any order of commits, trims, reads and new starts."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from live.store.support import sequences
from penstock.live.store import Append, ForgetPublishers, LogStore, SetValue, Trim
from penstock.model.tick import Tick

pubends = st.sampled_from(["p", "q"])
publishers = st.sampled_from([b"a", b"b", b"c"])
bodies = st.binary(max_size=40)
gaps_and_bodies = st.lists(st.tuples(st.integers(1, 5), bodies), max_size=8)


class Model(RuleBasedStateMachine):
    """The store beside plain dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.logs: dict[str, dict[int, bytes]] = {}
        self.lasts: dict[str, int] = {}
        self.trimmed: dict[str, int] = {}
        self.leases: dict[str, int] = {}
        self.sequences: dict[tuple[str, bytes], tuple[int, int]] = {}
        self.values: dict[str, bytes] = {}
        self.open()

    def open(self) -> None:
        self.store = LogStore.open(Path(self.folder.name), overlay="o", broker="b1", reserve_bytes=0)

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()

    def appended(self, pubend: str, parts: list[tuple[int, bytes]], sequences: dict[bytes, int]) -> Append:
        """Put it into the model, and give the change."""
        tick = max(self.lasts.get(pubend, 0), self.trimmed.get(pubend, 0))
        messages = []
        for gap, body in parts:
            tick += gap
            messages.append((Tick(tick), body))
        self.logs.setdefault(pubend, {}).update(messages)
        if messages:
            self.lasts[pubend] = tick
        lease = max(self.leases.get(pubend, 0), tick + 3)
        self.leases[pubend] = lease
        return Append(pubend, messages, Tick(lease), sequences)

    @rule(
        parts=st.lists(
            st.tuples(pubends, gaps_and_bodies, st.dictionaries(publishers, st.integers(0, 9))), min_size=1, max_size=3
        ),
        value=st.none() | st.binary(max_size=5),
    )
    def commit(self, parts: list[tuple[str, list[tuple[int, bytes]], dict[bytes, int]]], value: bytes | None) -> None:
        appends = [self.appended(*part) for part in parts]
        self.store.commit([*appends, SetValue("v", value)])
        for each in appends:
            # Without messages of its own, it counts from the last message of the whole commit.
            tick = each.messages[-1][0] if each.messages else self.lasts.get(each.pubend, 0)
            for publisher, sequence in each.sequences.items():
                before, stamp = self.sequences.get((each.pubend, publisher), (0, 0))
                self.sequences[each.pubend, publisher] = max(before, sequence), max(stamp, tick)
        self.values.pop("v", None)
        if value is not None:
            self.values["v"] = value

    @rule(pubend=pubends, below=st.integers(0, 120), at_once=st.booleans())
    def trim(self, pubend: str, below: int, at_once: bool) -> None:
        if at_once:
            self.store.trim(pubend, Tick(below))
        else:
            while self.store.trimmed_below(pubend) < below:
                self.store.commit([Trim(pubend, Tick(below), batches_max=1)])
        if below > self.trimmed.get(pubend, 0):
            self.trimmed[pubend] = below
            log = self.logs.setdefault(pubend, {})
            self.logs[pubend] = {tick: body for tick, body in log.items() if tick >= below}

    @rule(pubend=pubends, below=st.integers(0, 120))
    def forget(self, pubend: str, below: int) -> None:
        self.store.commit([ForgetPublishers(pubend, Tick(below))])
        kept = {key: found for key, found in self.sequences.items() if key[0] != pubend or found[1] >= below}
        self.sequences = kept

    @rule(pubend=pubends, first=st.integers(0, 120), count=st.integers(0, 60), bytes_max=st.integers(0, 200))
    def read(self, pubend: str, first: int, count: int, bytes_max: int) -> None:
        expected: list[tuple[int, bytes]] = []
        for tick, body in self.logs.get(pubend, {}).items():
            if first <= tick <= first + count:
                if expected and sum(len(each) for _, each in expected) + len(body) > bytes_max:
                    break
                expected.append((tick, body))
        assert self.store.read(pubend, Tick(first), Tick(first + count), bytes_max=bytes_max) == expected

    @rule()
    def start_anew(self) -> None:
        self.store.close()
        self.open()

    @invariant()
    def totals_agree(self) -> None:
        assert self.store.pubends() == sorted(self.logs)
        assert self.store.value("v") == self.values.get("v")
        for pubend, log in self.logs.items():
            assert self.store.first_tick(pubend) == min(log, default=None)
            assert self.store.last_tick(pubend) == self.lasts.get(pubend)
            assert self.store.lease(pubend) == self.leases.get(pubend)
            assert self.store.trimmed_below(pubend) == self.trimmed.get(pubend, 0)
            assert self.store.message_count(pubend) == len(log)
            assert self.store.size_bytes(pubend) == sum(map(len, log.values()))
            for publisher in (b"a", b"b", b"c"):
                sequence, _ = self.sequences.get((pubend, publisher), (None, 0))
                assert sequences(self.store, pubend).get(publisher) == sequence


def test_a_store_does_what_a_dictionary_would_do() -> None:
    run_state_machine_as_test(Model, settings=settings(max_examples=40, stateful_step_count=25))
