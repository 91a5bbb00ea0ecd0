"""Copying between folders: who owns what, and that half a copy is never a store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from live.store.support import contents, tamper
from live.transfers import content, fill, opened
from penstock.broker.durable import Append, SetValue
from penstock.live import copying as copying_module
from penstock.live.copying import Copied, CopyEnd, CopyOrder, copy_store
from penstock.live.store import StoreDamagedError, StoreLockedError, StoreOwnerError, StoreRefusedError
from penstock.live.store.checking import check
from penstock.live.stores import MovableStore
from penstock.live.transfer import Choice, CopyDiffersError, OnCopy, StoreFigures, Transfer, survey
from penstock.model.tick import Tick


@pytest.fixture
def source(tmp_path: Path) -> Path:
    with opened(tmp_path / "a") as store:
        fill(store, Random(5))
    return tmp_path / "a"


def copied(source: Path, target: Path, *, pubend: str = "", broker: str = "", again: bool = False) -> Copied:
    return copy_store(CopyOrder(CopyEnd(str(source)), CopyEnd(str(target), broker=broker), pubend, is_again=again))


def test_a_copy_is_a_store_like_the_first(tmp_path: Path, source: Path) -> None:
    with opened(source) as store:
        wanted = content(store)
    before = contents(source)
    done = copied(source, tmp_path / "deep" / "b")
    assert contents(source) == before
    assert (done.source.owner, done.target.owner, done.is_whole) == (("o", "b1"), ("o", "b1"), True)
    assert check(tmp_path / "deep" / "b").problems == []
    with opened(tmp_path / "deep" / "b") as store:
        assert content(store) == wanted
    assert [each.name for each in (tmp_path / "deep").iterdir()] == ["b"]


def test_another_broker_gets_one_pubend_and_must_say_which(tmp_path: Path, source: Path) -> None:
    with pytest.raises(StoreRefusedError, match=r"has several pubends \(p, q, r\), and b2 is another broker"):
        copied(source, tmp_path / "b", broker="b2")
    assert not copied(source, tmp_path / "b", broker="b2", pubend="q").is_whole
    with opened(tmp_path / "b", broker="b2") as store:
        assert list(store.recovered().pubends) == ["q"]
    # Of a broker with one pubend it is clear.
    with opened(tmp_path / "single") as store:
        store.commit([Append("q", [(Tick(1), b"x")])])
    assert list(copied(tmp_path / "single", tmp_path / "c", broker="b2").figures.pubends) == ["q"]
    with pytest.raises(StoreOwnerError), opened(tmp_path / "c"):
        pass


def test_names_that_do_not_fit_are_refused(tmp_path: Path, source: Path) -> None:
    target = CopyEnd(str(tmp_path / "b"))
    with pytest.raises(StoreRefusedError, match="is of broker 'b1', not of 'b9'"):
        copy_store(CopyOrder(CopyEnd(str(source), "o", "b9"), target))
    with pytest.raises(StoreRefusedError, match="is of overlay 'o', not of 'x'"):
        copy_store(CopyOrder(CopyEnd(str(source), "x"), target))
    with pytest.raises(StoreRefusedError, match="and a copy cannot be of 'x'"):
        copy_store(CopyOrder(CopyEnd(str(source)), CopyEnd(str(tmp_path / "b"), "x")))
    with pytest.raises(StoreRefusedError, match="the store has no pubend 'x'; there are: p, q, r"):
        copied(source, tmp_path / "b", pubend="x")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a"]


def test_stores_that_no_broker_opens_and_folders_in_use_are_refused(tmp_path: Path, source: Path) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file").touch()
    with pytest.raises(StoreRefusedError, match="exists already"):
        copied(source, tmp_path / "used")
    for folder in (tmp_path / "nowhere", tmp_path / "used"):
        with pytest.raises(StoreRefusedError, match="there is no"):
            copied(folder, tmp_path / "b")
    with opened(source), pytest.raises(StoreLockedError):
        copied(source, tmp_path / "b")
    tamper(source, "DELETE FROM batches")
    with pytest.raises(StoreDamagedError):
        copied(source, tmp_path / "b")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a", "used"]
    assert [each.name for each in (tmp_path / "used").iterdir()] == ["file"]


def test_a_copy_that_differs_is_thrown_away(tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def surveyed(store: MovableStore, choice: Choice, on_read: OnCopy) -> StoreFigures:
        store.commit([SetValue("durable/p/other", b"1")])
        return survey(store, choice, on_read)

    monkeypatch.setattr(copying_module, "survey", surveyed)
    with pytest.raises(CopyDiffersError, match="the copy differs from the store: it has"):
        copied(source, tmp_path / "b")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a"]


def moved_from(folder: Path) -> dict[str, str]:
    """The pubends that were copied from a store, and where to."""
    with opened(folder) as store:
        values = store.recovered().values
    return {name.removeprefix("moved/"): value.decode() for name, value in values.items() if name.startswith("moved/")}


def test_a_store_remembers_where_a_pubend_was_copied_to(tmp_path: Path, source: Path) -> None:
    copied(source, tmp_path / "b", broker="b2", pubend="q")
    assert moved_from(source) == {"q": f"{tmp_path / 'b'}, broker b2"}
    with pytest.raises(StoreRefusedError, match=r"pubend q was copied to .*/b, broker b2 before, .* say --again"):
        copied(source, tmp_path / "c", broker="b3", pubend="q")
    copied(source, tmp_path / "c", broker="b3", pubend="q", again=True)
    assert moved_from(source) == {"q": f"{tmp_path / 'c'}, broker b3"}
    # A copy of everything remembers it, too, unless the pubend is to be served there.
    copied(source, tmp_path / "whole")
    assert moved_from(tmp_path / "whole") == moved_from(source)
    copied(source, tmp_path / "back", again=True)
    assert moved_from(tmp_path / "back") == {}


def test_after_an_interruption_at_the_end_the_same_copy_is_made_again(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: Transfer) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Transfer, "complete", interrupted)
        with pytest.raises(KeyboardInterrupt):
            copied(source, tmp_path / "b", broker="b2", pubend="q")
    assert moved_from(source) == {"q": f"{tmp_path / 'b'}, broker b2"}, "nobody may serve it here any more"
    assert list(copied(source, tmp_path / "b", broker="b2", pubend="q").figures.pubends) == ["q"]


def test_a_source_is_only_read(tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreRefusedError, match=r"a/x is inside of .*/a: name a folder elsewhere"):
        copied(source, source / "x")
    assert not (source / "x").exists()

    def denied(_: Path) -> Iterator[Path]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", denied)
    with pytest.raises(StoreRefusedError, match="a cannot be read: Permission denied"):
        copied(source, tmp_path / "b")
