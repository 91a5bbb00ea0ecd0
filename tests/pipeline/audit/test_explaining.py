"""Rows of findings, as all parts of an audit make them (on Spark: ``test_job``)."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")

from penstock.pipeline.audit.explaining import finding_row
from penstock.pipeline.audit.judging import Judgement, Seen


def test_a_row_is_a_count_or_a_fault() -> None:
    assert finding_row(Judgement.DELIVERED, "s", 5)["message_id"] is None
    row = finding_row(Judgement.LOST, "s", 0, "id", Seen(7, "p", frozenset(), (), frozenset()), ("b",))
    assert (row["judgement"], row["tick"], row["pubend"], row["brokers"]) == ("lost", 7, "p", ["b"])
