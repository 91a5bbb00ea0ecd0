"""What may be published, message by message."""

from __future__ import annotations

from penstock.broker.clients.judging import Part, parts
from penstock.protocol.frames import Publish


def cut(count: int, problems: dict[int, str]) -> list[tuple[int, list[bytes], str]]:
    found: list[Part] = parts(Publish(10, [b"%d" % place for place in range(count)], "p"), problems)
    assert all(each.frame.pubend == "p" for each in found)
    return [(each.frame.first, each.frame.bodies, each.reason) for each in found]


def test_a_batch_is_cut_where_the_judgement_changes() -> None:
    assert cut(6, {1: "a", 2: "a", 3: "b", 5: "a"}) == [
        (10, [b"0"], ""),
        (11, [b"1", b"2"], "a"),
        (13, [b"3"], "b"),
        (14, [b"4"], ""),
        (15, [b"5"], "a"),
    ]
    assert cut(2, {}) == [(10, [b"0", b"1"], "")]
    assert cut(2, {0: "a", 1: "a"}) == [(10, [b"0", b"1"], "a")]
