"""The checkpoint of an archive: what the archive was created for, and which offsets its batches cover.

Spark keeps its own part in a subfolder. Beside it, one small file holds the archive's identity, by which the table's
journal and the checkpoint recognise each other.
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import Final
from uuid import uuid4

import msgspec

from penstock.model.lake_tables import LakeTable
from penstock.pipeline.lake.errors import LakeError, LakeMismatchError
from penstock.pipeline.lake.files import LocalFiles

__all__ = ["Checkpoint", "Identity"]

_FORMAT: Final = 1


class Identity(msgspec.Struct, frozen=True):
    """What an archive was created for."""

    format: int
    stream: str
    overlay: str
    selector: str
    start: str


class Checkpoint:
    """The checkpoint of one table of a lake."""

    def __init__(self, files: LocalFiles, table: LakeTable) -> None:
        self._files = files
        self._folder = f"_checkpoints/{table.name}"

    @property
    def spark_location(self) -> str:
        """Where Spark keeps its part."""
        return self._files.location(f"{self._folder}/spark")

    @property
    def is_new(self) -> bool:
        """Whether no batch has ever been started."""
        return not any((Path(self.spark_location) / "offsets").glob("[0-9]*"))

    def open(self, overlay: str, selector: str, start: str) -> Identity:
        """Load the archive's identity and check that it matches; creates one if there is none."""
        found = self._load()
        if found is None:
            if not self.is_new:
                raise LakeError(f"the checkpoint {self._files.location(self._folder)} has lost its archive.json")
            found = Identity(_FORMAT, uuid4().hex, overlay, selector, start)
            self._files.write(self._path, msgspec.json.format(msgspec.json.encode(found), indent=1))
        for what, was, now in (("overlay", found.overlay, overlay), ("selector", found.selector, selector)):
            if was != now:
                raise LakeMismatchError(
                    f"the archive in {self._files.root} is of {what} {was!r}, not of {now!r}: "
                    "give the same as before, or another lake"
                )
        return found

    def offsets_digest(self, number: int) -> str:
        """Digest of a batch's offsets, which are synced to disk before anybody relies on them."""
        folder = f"{self._folder}/spark/offsets"
        content = self._files.read(f"{folder}/{number}")
        if content is None:
            raise LakeError(f"the checkpoint {self.spark_location} has no offsets of batch {number}")
        # Spark does not sync its files. The checksum file beside this one is verified when it is read.
        for name in (f"{folder}/{number}", f"{folder}/.{number}.crc"):
            if self._files.exists(name):
                self._files.sync(name)
        self._files.sync_names([f"{folder}/{number}"])
        return blake2b(content, digest_size=16).hexdigest()

    @property
    def _path(self) -> str:
        return f"{self._folder}/archive.json"

    def _load(self) -> Identity | None:
        content = self._files.read(self._path)
        if content is None:
            return None
        place = self._files.location(self._path)
        try:
            identity = msgspec.json.decode(content, type=Identity)
        except msgspec.DecodeError as error:
            raise LakeError(f"{place} is damaged: {error}") from None
        if identity.format != _FORMAT:
            raise LakeMismatchError(f"{place} is of format {identity.format}; this Penstock has format {_FORMAT}")
        return identity
