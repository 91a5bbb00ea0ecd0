from __future__ import annotations

import numpy as np

from penstock.model.message_id import MessageId
from penstock.tracking.exact import ExactRecords, exact_shape
from penstock.tracking.hashing import columns

IDS = [MessageId(1, 2, 1_000 + each, 0) for each in range(3)]
HIGH, LOW = columns(b"".join(each.to_bytes() for each in IDS))


def test_a_record_takes_sixteen_bytes_and_a_delivery_eight_more() -> None:
    records = ExactRecords(exact_shape(10_000, has_subscribers=False))
    records.add_columns(HIGH, LOW)
    assert records.to_bytes() == b"".join(each.to_bytes() for each in IDS)
    deliveries = ExactRecords(exact_shape(10_000, has_subscribers=True))
    deliveries.add_columns(HIGH, LOW, np.array([7, 8, 9], dtype=np.uint64))
    assert len(deliveries.to_bytes()) == 3 * 24
    assert (records.has_subscribers, deliveries.has_subscribers) == (False, True)


def test_a_buffer_of_10000_bytes_holds_625_records() -> None:
    assert exact_shape(10_000, has_subscribers=False).n == exact_shape(10_000, has_subscribers=True).n == 625


def test_records_are_never_wrong() -> None:
    records = ExactRecords(exact_shape(100, has_subscribers=False))
    assert not records.contains(0, 0)
    records.add_columns(HIGH[:2], LOW[:2])
    assert [records.contains(*each.halves()) for each in IDS] == [True, True, False]
    assert records.fpp == 0


def test_a_delivery_is_found_by_id_and_subscriber() -> None:
    records = ExactRecords(exact_shape(100, has_subscribers=True))
    records.add_columns(HIGH, LOW, np.array([7, 8, 9], dtype=np.uint64))
    again = ExactRecords(records.shape, records.to_bytes(), records.count)
    high, low = IDS[1].halves()
    assert again.contains(high ^ 8, low)
    assert not again.contains(high ^ 7, low)
    subscribers = again.columns()[2]
    assert subscribers is not None
    assert subscribers.tolist() == [7, 8, 9]
