"""Reads a whole store, messages and kept records included, and says what is damaged; changes nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from penstock.live.store.errors import StoreRefusedError
from penstock.live.store.haul import Haul, haul_from
from penstock.live.store.inspecting import FILE_NAME, inspect, reading
from penstock.live.store.schema import FORMAT_VERSION
from penstock.live.store.witness import Witness
from penstock.model.tick import TickRange

__all__ = ["Checked", "check"]


@dataclass(slots=True)
class Checked:
    """The result of checking a store."""

    folder: str
    format: int = FORMAT_VERSION
    problems: list[str] = field(default_factory=list)
    """Damage that keeps brokers from opening the store; it can be salvaged."""
    notes: list[str] = field(default_factory=list)
    """Damage that is repaired when the store is opened."""
    damaged: dict[str, list[TickRange]] = field(default_factory=dict)
    """Ticks whose messages cannot be read, by pubend: the store can be opened, and subscribers are told."""
    records: list[str] = field(default_factory=list)
    """Named values and kept records that cannot be read."""
    messages: int = 0
    """Messages that were read and found whole."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing is lost."""
        return not (self.problems or self.damaged or self.records)


def check(folder: Path) -> Checked:
    """Examine the store in a folder; raises if there is none, or a broker has it open."""
    if not folder.is_dir():
        raise StoreRefusedError(f"there is no folder {folder}")
    witness = Witness(folder)
    try:
        found = inspect(folder, witness.statement)
        if found.is_new and not found.problems:
            raise StoreRefusedError(f"there is no store in {folder}")
        checked = Checked(str(folder), found.version, found.problems)
        if found.repairs:
            checked.notes.append("the witness is missing or damaged, and is made anew when the store is opened")
        if found.version == FORMAT_VERSION and not found.problems:
            _read_all(folder, checked)
        return checked
    finally:
        witness.withdraw()


def _read_all(folder: Path, checked: Checked) -> None:
    with reading(folder) as database:
        haul = haul_from(database, folder)
        for name, pubend in sorted(haul.pubends.items()):
            for batch in haul.batches.get(pubend.number, []):
                messages = haul.messages(database, batch)
                if messages is None:
                    checked.damaged.setdefault(name, []).append(batch.ticks)
                else:
                    checked.messages += len(messages)
        checked.records += _damaged_records(haul)


def _damaged_records(haul: Haul) -> list[str]:
    """Damaged named values and kept records, which a broker finds missing when it opens the store."""
    texts = {
        "named": f"some named values in {FILE_NAME} are damaged",
        "kept": f"some kept records in {FILE_NAME} are damaged",
    }
    return [text for table, text in texts.items() if table in haul.doubtful]
