"""Writes the store of format 3 that is kept in ``kept/format-3``, so that later versions can prove that they read it.

Run once, by the version that introduced the format, and never again for format 3::

    PYTHONPATH=src:tests python -m live.store.format_3 tests/live/store/kept/format-3

The test does not use this script: it reads the kept files and compares them with literals. For format 4, write a script
and a folder of its own, and leave these files alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

from live.store.kept_support import filter_record
from live.store.support import opened
from penstock.broker.pubend.register import Register
from penstock.live.store import Append, ForgetPublishers, SetValue, Trim
from penstock.model.body import encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.model.tick import Tick
from penstock.model.values import AttributeValue


def write(folder: Path) -> None:
    with opened(folder) as store:
        first = [(Tick(1_000 + number), order(number)) for number in range(1, 4)]
        store.commit([Append("b1.orders", first, lease=Tick(2_000), sequences={b"shop": 3, b"till": 1})])
        second = [(Tick(1_010), order(4)), (Tick(1_020), order(5))]
        store.commit([Append("b1.orders", second, sequences={b"shop": 5})])
        store.commit([Append("b1.alarms", [(Tick(7), b"seven"), (Tick(9), b"")], sequences={b"probe": 2**40})])
        store.commit([Trim("b1.orders", Tick(1_003)), ForgetPublishers("b1.orders", Tick(1_004))])
        names = Register("b1.orders", {})
        store.commit([names.claim("billing", 3, "b2", 1_010, "anna"), SetValue("incarnation", b"42")])
        store.commit([filter_record(7, size_bytes=64)])


def order(number: int) -> bytes:
    attributes: dict[str, AttributeValue] = {"number": number, "kind": "order", "price": 2.5, "urgent": number == 4}
    return encode_body(MessageId(1, 2, 1_700_000_000_000, number), Message(attributes, b"payload %d" % number))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
