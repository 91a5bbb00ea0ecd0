"""A checkpoint knows what it was made for, and what its batches stand for."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.model.lake_tables import PUBLICATIONS
from penstock.pipeline.archive.checkpoint import Checkpoint
from penstock.pipeline.lake.errors import LakeError, LakeMismatchError
from penstock.pipeline.lake.files import LocalFiles

FOLDER = "_checkpoints/publications"


def checkpoint(root: Path) -> Checkpoint:
    return Checkpoint(LocalFiles(root), PUBLICATIONS)


def test_an_identity_is_made_once_and_kept(tmp_path: Path) -> None:
    made = checkpoint(tmp_path).open("demo", "TRUE", "earliest")
    assert checkpoint(tmp_path).open("demo", "TRUE", "latest") == made
    assert checkpoint(tmp_path / "other").open("demo", "TRUE", "earliest").stream != made.stream


def test_another_overlay_or_selector_is_refused(tmp_path: Path) -> None:
    checkpoint(tmp_path).open("demo", "TRUE", "earliest")
    with pytest.raises(LakeMismatchError, match="is of overlay 'demo', not of 'prod'"):
        checkpoint(tmp_path).open("prod", "TRUE", "earliest")
    with pytest.raises(LakeMismatchError, match="is of selector 'TRUE', not of 'a = 1'"):
        checkpoint(tmp_path).open("demo", "a = 1", "earliest")


def test_it_is_new_until_there_is_a_batch(tmp_path: Path) -> None:
    assert checkpoint(tmp_path).is_new
    LocalFiles(tmp_path).write(f"{FOLDER}/spark/offsets/0", b"v1")
    assert not checkpoint(tmp_path).is_new
    with pytest.raises(LakeError, match=r"has lost its archive\.json"):
        checkpoint(tmp_path).open("demo", "TRUE", "earliest")


@pytest.mark.parametrize(
    "content", [b"", b"{}", b'{"format": 7, "stream": "s", "overlay": "", "selector": "", "start": ""}']
)
def test_a_damaged_identity_is_told(tmp_path: Path, content: bytes) -> None:
    LocalFiles(tmp_path).write(f"{FOLDER}/archive.json", content)
    with pytest.raises((LakeError, LakeMismatchError), match=r"is damaged|is of format 7"):
        checkpoint(tmp_path).open("demo", "TRUE", "earliest")


def test_a_digest_stands_for_the_offsets(tmp_path: Path) -> None:
    files, tried = LocalFiles(tmp_path), checkpoint(tmp_path)
    for number, content in enumerate((b"a", b"b", b"a")):
        files.write(f"{FOLDER}/spark/offsets/{number}", content)
    digests = [tried.offsets_digest(number) for number in range(3)]
    assert digests[0] == digests[2] != digests[1]
    with pytest.raises(LakeError, match="has no offsets of batch 3"):
        tried.offsets_digest(3)
