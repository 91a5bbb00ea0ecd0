"""Copying one store into another: the same is there, or the difference is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest

from live.store.support import tamper
from live.transfers import content, fill, opened
from penstock.broker.durable import Append, Change, KeepRecord, SetValue, Trim
from penstock.live.store import LogStore, StoreRefusedError
from penstock.live.stores import COPYING
from penstock.live.transfer import Choice, Transfer, survey
from penstock.model.tick import Tick, TickRange


def nothing(_done: int, _total: int) -> None:
    pass


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def copied(source: LogStore, target: LogStore, choice: Choice | None = None) -> None:
    choice = choice or Choice()
    transfer = Transfer(source, target, choice, nothing)
    wanted = transfer.run()
    found = survey(target, choice, nothing)
    found.damaged = wanted.damaged
    assert found == wanted
    assert found == survey(source, choice, nothing) or wanted.damaged
    transfer.complete()


@pytest.mark.parametrize("seed", range(12))
def test_a_copy_has_everything_with_the_same_bounds_stamps_and_damage(
    tmp_path: Path, stack: ExitStack, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Small parts, so that there are many.
    monkeypatch.setattr("penstock.live.transfer.PART_BYTES", 500)
    monkeypatch.setattr("penstock.live.transfer._NAMES_MAX", 3)
    source = stack.enter_context(opened(tmp_path / "a"))
    fill(source, Random(seed))
    target = stack.enter_context(opened(tmp_path / "b"))
    copied(source, target)
    assert content(target) == content(source)


def test_messages_that_cannot_be_read_are_damaged_in_the_copy_and_records_are_named(
    tmp_path: Path, stack: ExitStack
) -> None:
    with opened(tmp_path / "a") as store:
        store.commit([Append("p", [(Tick(tick), b"x") for tick in range(1, 6)], sequences={b"a": 1})])
        store.commit([Append("p", [(Tick(tick), b"x") for tick in range(11, 16)], sequences={b"b": 1})])
        store.commit([Append("p", [(Tick(21), b"y")], Tick(30), {b"c": 1})])
        store.commit([SetValue("v", b"1"), KeepRecord("k", b"1"), KeepRecord("m", b"2")])
    tamper(tmp_path / "a", "UPDATE bodies SET stored=x'00' WHERE place=2")
    tamper(tmp_path / "a", "UPDATE kept_bodies SET stored=x'00' WHERE place=1")
    source = stack.enter_context(opened(tmp_path / "a"))
    target = stack.enter_context(opened(tmp_path / "b"))
    transfer = Transfer(source, target, Choice(), nothing)
    assert transfer.run().damaged == ["k"]
    transfer.complete()
    assert target.damaged("p") == [TickRange(Tick(11), Tick(15))]
    assert [mark.tick for mark in target.publishers("p")] == [5, 15, 21]
    # As after a start from the damaged store: whoever needs it finds something that cannot be read.
    assert target.read_kept(["k", "m"], bytes_max=9).values == {"k": b"", "m": b"2"}
    assert list(target.recovered().kept) == ["k", "m"]


def test_what_was_trimmed_stays_trimmed_and_publishers_are_forgotten_as_before(
    tmp_path: Path, stack: ExitStack
) -> None:
    source = stack.enter_context(opened(tmp_path / "a"))
    source.commit([Append("q", sequences={b"first": 1})])
    for tick in range(1, 31):
        source.commit([Append("p", [(Tick(tick), b"x")], Tick(99), {b"%d" % tick: tick})])
    source.commit([Trim("p", Tick(40))])
    target = stack.enter_context(opened(tmp_path / "b"))
    copied(source, target)
    found = target.recovered().pubends["p"]
    assert (found.first_tick, found.last_tick, found.trimmed_below, found.lease) == (None, 30, 40, 99)
    assert [mark.tick for mark in target.publishers("p")] == list(range(1, 31))
    assert content(target) == content(source)


@pytest.mark.parametrize("seed", range(4))
def test_one_pubend_takes_its_own_values_along_and_no_others(tmp_path: Path, stack: ExitStack, seed: int) -> None:
    source = stack.enter_context(opened(tmp_path / "a"))
    fill(source, Random(seed))
    source.commit([SetValue("durable/p/billing", b"1"), SetValue("durable/pp/billing", b"2")])
    target = stack.enter_context(opened(tmp_path / "b", broker="p.home"))
    copied(source, target, Choice(("p",)))
    theirs, ours = content(target, ("p",)), content(source, ("p",))
    assert theirs["p"] == ours["p"]
    assert list(target.recovered().pubends) == ["p"]
    values = source.recovered().values
    assert target.recovered().values == {name: each for name, each in values.items() if name.split("/")[1:2] == ["p"]}
    assert not target.recovered().kept


def test_a_pubend_that_is_not_there_and_values_of_nobody_are_refused(tmp_path: Path, stack: ExitStack) -> None:
    source = stack.enter_context(opened(tmp_path / "a"))
    source.commit([Append("p"), SetValue("new/kind", b"1")])
    target = stack.enter_context(opened(tmp_path / "b"))
    with pytest.raises(StoreRefusedError, match="the store has no pubend 'x'; there are: p"):
        Transfer(source, target, Choice(("x",)), nothing).run()
    with pytest.raises(StoreRefusedError, match="nothing tells to which pubend the stored value 'new/kind' belongs"):
        Transfer(source, target, Choice(("p",)), nothing).run()


def test_half_a_copy_bears_a_mark(tmp_path: Path, stack: ExitStack) -> None:
    source = stack.enter_context(opened(tmp_path / "a"))
    fill(source, Random(1))
    target = stack.enter_context(opened(tmp_path / "b"))
    transfer = Transfer(source, target, Choice(), nothing)
    transfer.run()
    assert target.value(COPYING) == b"1"
    transfer.complete()
    assert target.value(COPYING) is None


@pytest.mark.parametrize(
    "harm",
    [
        lambda each: each if not isinstance(each, KeepRecord) else KeepRecord(each.name, b"other"),
        lambda each: each if not isinstance(each, SetValue) else SetValue(each.name, b"other"),
        lambda each: each if not isinstance(each, Trim) else Append("p"),
        lambda each: each if not isinstance(each, Append) else Append(each.pubend, each.messages, each.lease),
        lambda each: each if not isinstance(each, Append) else Append(each.pubend, (), each.lease, each.sequences),
        lambda each: each if not isinstance(each, Append) else Append(each.pubend, each.messages, None, each.sequences),
    ],
    ids=["record", "value", "trim", "sequences", "messages", "lease"],
)
def test_a_difference_is_seen(
    tmp_path: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch, harm: Callable[[Any], Change]
) -> None:
    source = stack.enter_context(opened(tmp_path / "a"))
    for number in range(1, 20):
        source.commit([Append("p", [(Tick(number), b"x")], Tick(99), {b"%d" % number: number})])
        source.commit([SetValue("v", b"1"), KeepRecord("k", b"1")])
    target = stack.enter_context(opened(tmp_path / "b"))
    commit = target.commit

    def harmed(changes: Sequence[Change]) -> None:
        commit([harm(each) for each in changes])

    with monkeypatch.context() as patched:
        patched.setattr(target, "commit", harmed)
        if harm(Trim("p", Tick(1))) != Trim("p", Tick(1)):
            # A trim that does nothing would be asked for again for ever.
            source.commit([Trim("q", Tick(5))])
            patched.setattr(target, "trimmed_below", lambda _: 100)
        wanted = Transfer(source, target, Choice(), nothing).run()
    assert survey(target, Choice(), nothing) != wanted
