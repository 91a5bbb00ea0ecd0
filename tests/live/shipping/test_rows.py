"""Records of a broker as rows: nothing that a trace or an audit needs is lost on the way."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from live.shipping.lakes import T0, bloom_value, exact_value, position_value
from penstock.live.shipping.cargo import Cargo
from penstock.live.shipping.rows import (
    FOREVER_MS,
    MARK,
    add_position,
    add_record,
    is_shipped,
    version_of,
)
from penstock.model.message_id import MessageId
from penstock.tracking.aliases import AliasBook
from penstock.tracking.attachment import AttachmentMap
from penstock.tracking.bloom import BloomFilter
from penstock.tracking.hashing import subscriber_key
from penstock.tracking.keys import HistoryKey, Phase
from penstock.tracking.records import DamagedRecordError, GapRecord, MarkRecord, SinceRecord, encode_record
from penstock.tracking.sizing import FilterShape

NOW = T0 + 1_000


def shipped(name: str, value: bytes) -> dict[str, list[dict[str, Any]]]:
    """The rows by table."""
    cargo = Cargo()
    add_record(cargo, name, value, now_ms=NOW)
    return rows_in(cargo)


def rows_in(cargo: Cargo) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for parcel in cargo:
        rows = [dict(zip(parcel.names, row, strict=True)) for row in parcel.rows]
        for block in parcel.blocks:
            rows += [dict(zip(block, row, strict=True)) for row in zip(*block.values(), strict=True)]
        found[parcel.table.name] = rows
    return found


def spans(*values: int) -> bytes:
    return struct.pack(f">{len(values)}q", *values)


def test_a_filter_has_its_bits_its_times_and_its_history() -> None:
    key = HistoryKey(Phase.DELIVER, 9, "00ff", is_late=True)
    name, value = bloom_value(4, 6, is_open=True, singletons=((5, 6), (8, 8)), key=key)
    ((row,),) = shipped(name, value).values()
    assert (row["history"], row["phase"], row["origin"], row["part"]) == ("deliver~late/9/00ff", "deliver", 9, "00ff")
    assert (row["is_late"], row["filter_id"], row["generation"], row["is_open"]) == (True, 4, 6, True)
    assert (row["first_ms"], row["last_ms"], row["singletons"]) == (T0, T0 + 9, spans(5, 6, 8, 8))
    assert (row["opened_at"], row["added_at"]) == (T0 * 1_000, (T0 + 5) * 1_000)
    filter_ = BloomFilter(FilterShape(row["m"], row["n"], row["k"]), row["bits"], row["count"])
    assert all(filter_.contains(number, 4) for number in range(20))


def test_exact_records_are_rows_with_the_two_halves_of_the_id() -> None:
    ids = [(1, 2), (2**63 + 5, 2**64 - 1)]
    rows = shipped(*exact_value(HistoryKey(Phase.ROUTE, 7), ids))["records"]
    assert [(row["id_high"], row["id_low"], row["place"]) for row in rows] == [(1, 2, 0), (5 - 2**63, -1, 1)]
    assert [row["subscriber_key"] for row in rows] == [None, None]


def test_deliveries_name_their_subscriber_whichever_way_they_are_kept() -> None:
    alice = subscriber_key("alice")
    together = shipped(*exact_value(HistoryKey(Phase.DELIVER, 7), [(1, 2)], [alice]))["records"]
    own = shipped(*exact_value(HistoryKey(Phase.DELIVER, 7, f"{alice:016x}"), [(1 ^ alice, 2)]))["records"]
    for row in (*together, *own):
        assert (row["id_high"], row["id_low"], int(row["subscriber_key"]) % 2**64) == (1, 2, alice)


def test_an_attachment_is_also_a_subscription() -> None:
    attachments = AttachmentMap()
    number, _ = attachments.attach("alice", {"p": 5}, now_ms=T0, selector="a > 1", durable=True)
    (keep,) = attachments.detach(number, {"p": 9}, now_ms=T0 + 7)
    assert keep.value is not None
    found = shipped(keep.name, keep.value)
    (attachment,), (subscription,) = found["attachments"], found["subscriptions"]
    for row in (attachment, subscription):
        assert (row["number"], row["subscriber"]) == (1, "alice")
        assert (row["starts"], row["ends"]) == ([("p", 5)], [("p", 9)])
    assert (attachment["attached_at"], attachment["detached_at"]) == (T0 * 1_000, (T0 + 7) * 1_000)
    assert attachment["subscriber_key"] % 2**64 == subscriber_key("alice")
    assert (subscription["selector"], subscription["is_durable"]) == ("a > 1", True)
    assert (subscription["began_at"], subscription["ended_at"]) == (T0 * 1_000, (T0 + 7) * 1_000)


def test_a_number_beyond_64_bits_does_not_keep_the_others_from_being_shipped() -> None:
    (keep,) = AttachmentMap().attach("alice", {"p": 2**64 - 1}, now_ms=T0)[1]
    assert keep.value is not None
    assert shipped(keep.name, keep.value)["attachments"][0]["starts"] == [("p", 2**63 - 1)]
    cargo = Cargo()
    add_position(cargo, "durable/p/c", position_value(2**64 - 1, 2**64 - 1), ["p"], now_ms=NOW)
    (row,) = rows_in(cargo)["positions"]
    assert (row["acknowledged"], row["ownership"]) == (2**63 - 1, 2**63 - 1)


def test_a_selector_that_was_not_recorded_is_unknown_and_not_empty() -> None:
    (keep,) = AttachmentMap().attach("alice", {}, now_ms=T0)[1]
    assert keep.value is not None
    ((row,),) = [rows for table, rows in shipped(keep.name, keep.value).items() if table == "subscriptions"]
    assert (row["selector"], row["ended_at"]) == (None, None)


def test_gaps_and_since_when_a_broker_knows_are_rows_alike() -> None:
    gap = encode_record(GapRecord(((1, 2), (5, 5)), "crash", "route/7"))
    ((row,),) = shipped("gap/crash/route/7", gap).values()
    assert (row["history"], row["reason"], row["spans"]) == ("route/7", "crash", spans(1, 2, 5, 5))
    ((row,),) = shipped("since/filter", encode_record(SinceRecord(100))).values()
    assert (row["history"], row["reason"], row["spans"]) == ("filter", "since", spans(0, 99))


def test_a_mark_says_from_when_on_the_lake_knows_nothing_yet() -> None:
    for mark, first_ms in ((MarkRecord(100, 100), 100), (MarkRecord(100, 50), 50)):
        ((row,),) = shipped(MARK, encode_record(mark)).values()
        assert (row["history"], row["reason"], row["spans"]) == ("", "open", spans(first_ms, FOREVER_MS))


def test_an_alias_names_who_published_in_truth() -> None:
    message_id = MessageId(2**31 + 1, 2, T0, 3)
    keep = AliasBook().record(message_id, "b3", 3, now_ms=NOW)[0]
    assert keep.value is not None
    ((row,),) = shipped(keep.name, keep.value).values()
    assert struct.pack(">qq", row["id_high"], row["id_low"]) == message_id.to_bytes()
    assert (row["publisher_broker"], row["publisher_number"]) == ("b3", 3)


def test_a_position_is_of_the_longest_pubend_that_fits() -> None:
    cargo = Cargo()
    add_position(cargo, "durable/a/b/c", position_value(7, 2, "b9"), ["a", "a/b"], now_ms=NOW)
    add_position(cargo, "durable/a/b/c", None, ["a"], now_ms=NOW)
    one, other = rows_in(cargo)["positions"]
    assert (one["pubend"], one["subscription"], one["acknowledged"]) == ("a/b", "c", 7)
    assert (one["ownership"], one["host"], one["is_forgotten"]) == (2, "b9", False)
    assert (other["pubend"], other["subscription"], other["acknowledged"]) == ("a", "b/c", None)
    assert other["is_forgotten"]


@pytest.mark.parametrize(("name", "value"), [("durable/q/c", position_value(1)), ("durable/p/c", b"\xc1")])
def test_a_position_that_means_nothing_is_refused(name: str, value: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        add_position(Cargo(), name, value, ["p"], now_ms=NOW)


def test_a_version_changes_with_the_record_and_says_when_it_is_the_last() -> None:
    grown = [version_of(*bloom_value(1, generation, is_open=True)) for generation in (1, 2)]
    sealed = version_of(*bloom_value(1, 2))
    assert len({each.number for each in (*grown, sealed)}) == 3
    assert [each.is_final for each in (*grown, sealed)] == [False, False, True]
    assert (grown[0].settled_ms, sealed.settled_ms) == (0, T0 + 5)
    attachments = AttachmentMap()
    (attached,) = attachments.attach("a", {}, now_ms=T0)[1]
    (detached,) = attachments.detach(1, {}, now_ms=T0)
    assert attached.value is not None
    assert detached.value is not None
    assert [version_of(each.name, each.value or b"").is_final for each in (attached, detached)] == [False, True]


@pytest.mark.parametrize("flipped", [0, 30, 120, -1])
def test_a_damaged_record_is_no_row(flipped: int) -> None:
    name, value = bloom_value()
    damaged = bytearray(value)
    damaged[flipped] ^= 1
    with pytest.raises(DamagedRecordError):
        add_record(Cargo(), name, bytes(damaged), now_ms=NOW)
    with pytest.raises(DamagedRecordError):
        add_record(Cargo(), "gap/x", b"", now_ms=NOW)


def test_only_what_the_lake_is_for_is_shipped() -> None:
    names = ["filter/route/1#0", "attachment/1", "gap/x/", "alias/x", "since/filter", "link/b2", "mark", "other"]
    assert [is_shipped(name) for name in names] == [True] * 5 + [False] * 3
