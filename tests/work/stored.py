"""The values that a ledger writes, as a store keeps them."""

from __future__ import annotations

from penstock.work.ledger import Ledger

__all__ = ["Stored"]


class Stored:
    """What has been written of one group."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def write(self, ledger: Ledger) -> dict[str, bytes | None]:
        changes = ledger.take_changes()
        for name, value in changes.items():
            if value is None:
                del self.values[name]
            else:
                self.values[name] = value
        return changes

    def restored(self) -> Ledger:
        pages = {int(name): value for name, value in self.values.items() if name}
        return Ledger.restored(self.values[""], pages)
