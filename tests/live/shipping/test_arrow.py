"""Types of pyarrow come from the declarations; who has no pyarrow is told before anything is started."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.live.errors import ConfigError
from penstock.live.shipping import arrow
from penstock.live.shipping.arrow import arrow_schema, require_pyarrow
from penstock.model.lake_tables import ATTACHMENTS, SHIPPED_TABLES, TABLES, LakeTable


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_declared_table_has_a_schema_that_says_which_it_is(table: LakeTable) -> None:
    schema = arrow_schema(table)
    assert schema.names == [column.name for column in table.columns]
    assert schema.metadata[b"penstock.table"] == table.name.encode()


def test_positions_by_pubend_are_integers() -> None:
    assert arrow_schema(ATTACHMENTS).field("starts").type == pa.map_(pa.string(), pa.int64())


def test_shipped_tables_have_date_and_broker_as_folders_and_tell_their_batch() -> None:
    for table in SHIPPED_TABLES:
        assert [column.name for column in table.partitions] == ["date", "broker"]
        assert [column.name for column in table.columns[:2]] == ["incarnation", "sequence"]


def test_without_pyarrow_a_broker_with_a_lake_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    require_pyarrow("broker b1")
    monkeypatch.setattr(arrow, "find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match=r"broker b1 ships to a lake .* needs pyarrow; install penstock\[spark\]"):
        require_pyarrow("broker b1")
