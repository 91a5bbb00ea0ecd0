from __future__ import annotations

from pathlib import Path

import pytest

from penstock.model.errors import MisuseError
from penstock.pipeline.folders import read_folder_json, read_folder_table, write_folder
from penstock.pipeline.lake.errors import LakeError


def test_a_folder_is_written_read_and_replaced_as_a_whole(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    write_folder(folder, {"old": {"a": [1]}}, {})
    write_folder(folder, {"rows": {"a": [1, 2], "b": ["x", None]}}, {"s.json": '{"n": 1}'})
    assert read_folder_table(folder, "rows") == {"a": [1, 2], "b": ["x", None]}
    assert read_folder_json(folder, "s.json", "summary") == {"n": 1}
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["out", "rows.parquet", "s.json"]


def test_what_cannot_be_written_is_told_and_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MisuseError, match="cannot write"):
        write_folder(tmp_path / "file/out", {}, {})


def test_what_is_missing_or_damaged_is_named(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="there is no summary in"):
        read_folder_json(tmp_path, "s.json", "summary")
    (tmp_path / "s.json").write_text("[")
    (tmp_path / "t.parquet").write_text("no")
    with pytest.raises(LakeError, match=r"cannot read .*s\.json"):
        read_folder_json(tmp_path, "s.json", "summary")
    for name in ("t", "u"):
        with pytest.raises(LakeError, match=rf"cannot read .*{name}\.parquet"):
            read_folder_table(tmp_path, name)
