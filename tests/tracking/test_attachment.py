from __future__ import annotations

from penstock.tracking.attachment import AttachmentMap
from penstock.tracking.records import AttachmentRecord, Keep, SinceRecord, decode_record


def ticks(**pubends: int) -> dict[str, int]:
    return {pubend: time_ms << 16 for pubend, time_ms in pubends.items()}


def record_of(keep: Keep) -> AttachmentRecord:
    assert keep.value is not None
    return decode_record(keep.value, AttachmentRecord)


def test_who_is_attached_may_have_received_what_is_published() -> None:
    attachments = AttachmentMap()
    attachments.attach("alice", {}, now_ms=1_000)
    number, _ = attachments.attach("bob", {}, now_ms=2_000)
    attachments.detach(number, {}, now_ms=3_000)
    assert attachments.covering(1_400, 1_600) == ["alice"]
    assert attachments.covering(1_900, 2_100) == ["alice", "bob"]
    assert attachments.covering(2_990, 3_010) == ["alice", "bob"]
    assert attachments.covering(3_000, 3_010) == ["alice", "bob"]
    assert attachments.covering(3_001, 3_010) == ["alice"]
    assert attachments.covering(900, 999) == []


def test_who_catches_up_later_is_found_by_positions() -> None:
    attachments = AttachmentMap()
    attachments.attach("late", ticks(p=500), now_ms=9_000)
    assert attachments.covering(600, 700) == ["late"]
    assert attachments.covering(400, 499) == []
    assert attachments.covering(600, 700, pubends=frozenset({"p"})) == ["late"]
    assert attachments.covering(600, 700, pubends=frozenset({"q"})) == []


def test_positions_may_begin_earlier_afterwards() -> None:
    attachments = AttachmentMap()
    number, (first,) = attachments.attach("alice", ticks(p=5_000), now_ms=5_000)
    assert attachments.begin(number, ticks(p=6_000)) == []
    (second,) = attachments.begin(number, ticks(p=100, q=4_000))
    assert first.name == second.name
    assert record_of(second).starts == ticks(p=100, q=4_000)
    assert attachments.covering(200, 300) == ["alice"]


def test_detaching_ends_at_positions() -> None:
    attachments = AttachmentMap()
    number, _ = attachments.attach("slow", ticks(p=100), now_ms=1_000)
    (keep,) = attachments.detach(number, ticks(p=400), now_ms=2_000)
    assert attachments.detach(number, {}, now_ms=9_000) == []
    assert record_of(keep).detached_ms == 2_000
    # It was attached till 2,000, but had received nothing of p from 400 on.
    assert attachments.covering(500, 600, pubends=frozenset({"p"})) == []
    assert attachments.covering(300, 350, pubends=frozenset({"p"})) == ["slow"]
    assert attachments.covering(500, 600) == ["slow"]


def test_a_record_is_to_be_stored_for_every_change_and_is_found_in_the_next_life() -> None:
    attachments = AttachmentMap()
    number, (attached,) = attachments.attach("alice", ticks(p=100), now_ms=1_000)
    attachments.attach("bob", {}, now_ms=1_100)
    (detached,) = attachments.detach(number, ticks(p=1_400), now_ms=1_500)
    assert attached.name == detached.name
    again = AttachmentMap()
    again.load(record_of(detached))
    assert again.covering(200, 200) == ["alice"]
    assert again.attach("carol", {}, now_ms=2_000)[0] > number


def test_a_crash_ends_attachments_at_the_next_start() -> None:
    attachments = AttachmentMap()
    _, (keep,) = attachments.attach("alice", ticks(p=100), now_ms=1_000)
    again = AttachmentMap()
    again.load(record_of(keep))
    (ended,) = again.end_earlier_life(now_ms=5_000)
    assert record_of(ended).detached_ms == 5_000
    assert again.covering(4_000, 4_100) == ["alice"]
    assert again.covering(5_001, 5_100) == []
    assert again.end_earlier_life(now_ms=6_000) == []


def test_how_far_back_newcomers_began_is_known() -> None:
    attachments = AttachmentMap()
    attachments.attach("old", ticks(p=1), now_ms=1_000)
    attachments.attach("new", ticks(p=700, q=600), now_ms=2_000)
    assert attachments.earliest_start_ms(attached_since_ms=1_500) == 600
    assert attachments.earliest_start_ms(attached_since_ms=2_500) is None


def test_the_oldest_that_are_gone_are_forgotten_and_their_time_is_unknown() -> None:
    attachments = AttachmentMap(3)
    stays, _ = attachments.attach("stays", {}, now_ms=0)
    for number in range(2):
        leaves, _ = attachments.attach(f"guest-{number}", {}, now_ms=100 * number)
        attachments.detach(leaves, {}, now_ms=100 * number + 50)
    number, (kept, dropped, since) = attachments.attach("fourth", {}, now_ms=500)
    assert (stays, number) == (1, 4)
    assert kept.value is not None
    assert (dropped.name, dropped.value) == (f"attachment/{2:012x}", None)
    assert (len(attachments), attachments.known_since_ms) == (3, 51)
    assert attachments.covering(0, 10) == ["stays"]
    assert (since.name, since.value is None) == ("since/attachment", False)
    again = AttachmentMap()
    again.load_since(decode_record(since.value or b"", SinceRecord))
    assert again.known_since_ms == 51


def test_a_selector_that_is_too_long_is_left_out_also_of_records_of_earlier_versions() -> None:
    attachments = AttachmentMap()
    for selector, kept in (("x" * 2_048, "x" * 2_048), ("x" * 2_049, ""), ("\U0001f600" * 600, "")):
        number, (keep,) = attachments.attach("alice", {}, now_ms=1_000, selector=selector)
        assert record_of(keep).selector == kept
        other = AttachmentMap()
        other.load(AttachmentRecord(number, "alice", 1_000, None, {}, {}, selector))
        (ended,) = other.end_earlier_life(now_ms=2_000)
        assert (record_of(ended).selector, other.covering(1_500, 1_600)) == (kept, ["alice"])


def test_records_are_bounded_in_bytes_and_the_oldest_of_those_that_are_gone_are_forgotten() -> None:
    attachments = AttachmentMap(bytes_max=100_000)
    stays, _ = attachments.attach("stays", {}, now_ms=1, selector="x" * 2_000)
    for turn in range(1_000):
        number, _ = attachments.attach("comes and goes", {}, now_ms=10 + turn, selector="x" * 2_000)
        attachments.detach(number, {}, now_ms=10 + turn)
        assert attachments._bytes <= 100_000 + 2_500
    assert 30 < len(attachments) < 50
    assert stays in attachments._records
    assert 900 < attachments.known_since_ms < 1_010
    for number in list(attachments._records):
        attachments.detach(number, {}, now_ms=2_000)
    small = AttachmentMap(bytes_max=1)
    for record in attachments._records.values():
        small.load(record)
    small.end_earlier_life(now_ms=3_000)
    assert (len(small), small._bytes) == (0, 0)
