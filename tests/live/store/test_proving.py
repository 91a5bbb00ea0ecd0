"""Reading a closed store to the last byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from live.store.support import DAMAGED_VALUES, append, opened, tamper
from penstock.live.store import Append, KeepRecord, SetValue, StoreDamagedError, StoreRefusedError
from penstock.live.store.proving import Proof, PubendProof, prove
from penstock.live.store.witness import read_statement
from penstock.model.tick import Tick, TickRange


def fill(path: Path) -> None:
    with opened(path) as store:
        append(store, 1, 5)
        append(store, 11, 15)
        store.commit([Append("p", lease=Tick(40)), Append("q", lease=Tick(3))])
        store.commit([SetValue("v", b"1"), KeepRecord("a", b"1"), KeepRecord("b", b"2")])


def proved(path: Path) -> tuple[Proof, list[tuple[int, int]]]:
    told: list[tuple[int, int]] = []
    return prove(path, read_statement(path), lambda done, total: told.append((done, total))), told


def test_a_whole_store_is_told_with_its_owner_and_pubends(tmp_path: Path) -> None:
    fill(tmp_path)
    proof, told = proved(tmp_path)
    assert (proof.overlay, proof.broker, proof.messages, proof.is_whole) == ("o", "b1", 10, True)
    assert proof.pubends == {
        "p": PubendProof(10, 100, Tick(15), Tick(40)),
        "q": PubendProof(0, 0, None, Tick(3)),
    }
    assert told[-1] == (13, 13)
    assert told == sorted(told)


def test_everything_that_is_damaged_is_named(tmp_path: Path) -> None:
    fill(tmp_path)
    tamper(tmp_path, "UPDATE bodies SET stored=x'00' WHERE place=2")
    tamper(tmp_path, "UPDATE kept_bodies SET stored=x'00' WHERE place=1")
    tamper(tmp_path, DAMAGED_VALUES)
    proof, _ = proved(tmp_path)
    assert not proof.is_whole
    assert proof.pubends["p"] == PubendProof(5, 50, Tick(15), Tick(40), (TickRange(Tick(11), Tick(15)),))
    assert proof.records == ["the named value 'v' is damaged", "the kept record 'a' is damaged"]


def test_a_damaged_index_of_kept_records_is_named(tmp_path: Path) -> None:
    fill(tmp_path)
    tamper(tmp_path, "DELETE FROM kept WHERE name='a'")
    assert proved(tmp_path)[0].records == ["the index of kept records in store.sqlite is damaged"]


def test_a_store_that_no_broker_opens_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreRefusedError, match="there is no store"):
        proved(tmp_path)
    fill(tmp_path)
    tamper(tmp_path, "DELETE FROM batches")
    with pytest.raises(StoreDamagedError):
        proved(tmp_path)
