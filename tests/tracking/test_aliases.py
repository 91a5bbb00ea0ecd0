from __future__ import annotations

from penstock.tracking.aliases import AliasBook
from penstock.tracking.records import AliasRecord, SinceRecord, decode_record
from tracking.ids import make_id


def test_an_alias_is_kept_and_found_in_the_next_life() -> None:
    book = AliasBook()
    (keep,) = book.record(make_id(5), "b2", 2, now_ms=77)
    assert keep.name == f"alias/{make_id(5)}"
    assert keep.value is not None
    again = AliasBook()
    assert again.load(decode_record(keep.value, AliasRecord)) == []
    record = again.record_of(make_id(5))
    assert record is not None
    assert (record.broker, record.number, record.published_ms) == ("b2", 2, 77)
    assert again.record_of(make_id(6)) is None


def test_the_oldest_aliases_are_forgotten() -> None:
    book = AliasBook(2)
    book.record(make_id(1), "b2", 2, now_ms=10)
    book.record(make_id(2), "b2", 2, now_ms=20)
    kept, dropped, since = book.record(make_id(3), "b2", 2, now_ms=30)
    assert kept.value is not None
    assert (dropped.name, dropped.value) == (f"alias/{make_id(1)}", None)
    assert (len(book), book.known_since_ms) == (2, 10)
    assert book.record_of(make_id(1)) is None
    assert since.value is not None
    again = AliasBook()
    again.load_since(decode_record(since.value, SinceRecord))
    assert again.known_since_ms == 10
