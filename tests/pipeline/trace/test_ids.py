"""Texts become identifiers, many at once, and those that are none are named."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from penstock.model.message_id import MessageId

pa = pytest.importorskip("pyarrow")

from penstock.pipeline.trace.ids import halves_of_texts, parsed_batches  # noqa: E402


def test_texts_are_parsed_as_one_by_one() -> None:
    rng = Random(3)
    ids = [MessageId.from_halves(rng.getrandbits(64), rng.getrandbits(64)) for _ in range(300)]
    texts = [
        str(each) if place % 2 else str(each).lower().replace("0", "o").replace("1", "l")
        for place, each in enumerate(ids)
    ]
    high, low, bad = halves_of_texts(pa.array(texts))
    assert list(zip(high.tolist(), low.tolist(), strict=True)) == [each.halves() for each in ids]
    assert not bad.any()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "26 characters, not 0"),
        (None, "26 characters, not 0"),
        ("0" * 25, "26 characters, not 25"),
        ("0" * 25 + "U", "'U'; only 0-9"),
        ("8" + "0" * 25, "begins with '8'"),
        ("é" + "0" * 25, "'é'; only 0-9"),
        ("é" * 13, "26 characters, not 13"),
    ],
)
def test_texts_that_are_none_are_told_with_the_reason(text: str | None, reason: str) -> None:
    good = str(MessageId(1, 2, 3, 4))
    (batch,) = parsed_batches([pa.RecordBatch.from_pydict({"message_id": pa.array([good, text, good])})])
    rows = batch.to_pylist()
    assert [row["malformed"] is None for row in rows] == [True, False, True]
    assert reason in rows[1]["malformed"]
    assert (rows[2]["id_high"], rows[2]["id_low"]) == MessageId(1, 2, 3, 4).halves()


def test_many_bad_texts_are_not_all_explained() -> None:
    (batch,) = parsed_batches([pa.RecordBatch.from_pydict({"message_id": pa.array(["x"] * 150)})])
    assert batch.column(2)[149].as_py() == "'x' is no identifier"
    assert batch.column(0).null_count == 150
    assert batch.column(0).type == pa.int64()
    assert np.array_equal(batch.column(1).is_null(), [True] * 150)
