"""Files of a lake: replaced whole, moved once, locked by one, and only where that is supported."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.model.errors import MisuseError
from penstock.pipeline.lake.errors import LakeBusyError, LakeError
from penstock.pipeline.lake.files import LocalFiles, files_at


def test_a_lake_is_a_folder_and_other_storage_is_refused_by_name(tmp_path: Path) -> None:
    assert files_at(str(tmp_path)).root == tmp_path
    assert files_at(f"file://{tmp_path}").root == files_at(f"file:{tmp_path}").root == tmp_path
    assert files_at("lake").root == Path.cwd() / "lake"
    for address in ("s3a://bucket/lake", "hdfs://host/lake"):
        with pytest.raises(MisuseError, match="only folders are supported so far"):
            files_at(address)


def test_listing_skips_what_is_hidden_and_what_is_no_parquet(tmp_path: Path) -> None:
    for name in ("t/d=1/b.parquet", "t/d=1/a.parquet", "t/_x/c.parquet", "t/.h.parquet", "t/_h.parquet", "t/n.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"12")
    files = LocalFiles(tmp_path)
    assert files.listed("t") == {"t/d=1/a.parquet": 2, "t/d=1/b.parquet": 2}
    assert files.listed("nothing") == {}


def test_a_file_is_written_read_and_replaced(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    assert files.read("a/b.json") is None
    for content in (b"one", b"two"):
        files.write("a/b.json", content)
        assert files.read("a/b.json") == content
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b.json"]


def test_moves_may_be_repeated_but_nothing_may_vanish(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    files.write("s/x", b"x")
    for _ in range(2):
        files.move([("s/x", "t/u/y")])
        assert (files.read("s/x"), files.read("t/u/y")) == (None, b"x")
    files.clear("s")
    files.move([("s/x", "t/u/y")])
    with pytest.raises(LakeError, match="disappeared before it was moved into place"):
        files.move([("s/x", "t/other")])


def test_deleting_twice_is_no_mistake(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    files.write("x", b"")
    for _ in range(2):
        files.delete(["x", "never/there"])
        assert not files.exists("x")


def test_what_the_system_refuses_is_told_with_the_path(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    files.write("plain", b"")
    works: list[Callable[[], object]] = [
        lambda: files.write("plain/x", b""),
        lambda: files.read("plain/x"),
        lambda: files.make_folder("plain/x"),
        lambda: files.sync("nothing"),
        lambda: files.sync_names(["nothing/x"]),
    ]
    for work in works:
        with pytest.raises(LakeError, match=r"cannot [a-z ]+ .*(plain|nothing|" + tmp_path.name + ")"):
            work()


def test_a_lock_is_held_by_one_process_and_goes_with_it(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib; from penstock.pipeline.lake.files import LocalFiles\n"
        f"with LocalFiles(pathlib.Path({str(tmp_path)!r})).lock('t/_lock', 'the table t'):\n"
        "    print('locked', flush=True); sys.stdin.read()"
    )
    files = LocalFiles(tmp_path)
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        with (
            pytest.raises(LakeBusyError, match=f"the table t in .* is being written by process {process.pid} on "),
            files.lock("t/_lock", "the table t"),
        ):
            pass
        process.kill()
        process.communicate()
    with files.lock("t/_lock", "the table t"):
        assert f"process {process.pid}" not in (tmp_path / "t/_lock").read_text()
