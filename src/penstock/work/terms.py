"""The terms of a group: what its first member asked for, and every other member must ask for as well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.model.errors import MisuseError
from penstock.model.limits import NAME_CHARS_MAX
from penstock.model.names import is_durable_name
from penstock.protocol.work_frames import DELIVERIES_MAX, WORK_MS_MAX, WORK_MS_MIN

__all__ = ["Terms"]


@dataclass(slots=True, frozen=True)
class Terms:
    """How a group shares messages, as fixed when it was made."""

    name: str
    selector: str
    """Canonical, and narrowed to what the members may see."""
    key: str = ""
    """The attribute by which order is kept: of messages with the same value, one at a time is handed out."""
    work_ms: int = 30_000
    """How long a member may take for a message before it is handed to somebody else."""
    deliveries_max: int = 0
    """How often a message is handed out in vain before it becomes a dead letter; 0 for as often as it takes."""

    def check(self) -> None:
        """Raises ``MisuseError`` if a group cannot have these terms."""
        if not is_durable_name(self.name):
            raise MisuseError(f"{self.name!r} cannot be the name of a group")
        if len(self.key) > NAME_CHARS_MAX:
            raise MisuseError(f"shared_by has {len(self.key)} characters; at most {NAME_CHARS_MAX} are allowed")
        if not WORK_MS_MIN <= self.work_ms <= WORK_MS_MAX:
            raise MisuseError(f"work_ms is {self.work_ms}; it must be {WORK_MS_MIN} to {WORK_MS_MAX:,}")
        if not 0 <= self.deliveries_max <= DELIVERIES_MAX:
            raise MisuseError(f"deliveries_max is {self.deliveries_max}; it must be 0 to {DELIVERIES_MAX:,}")

    def difference(self, asked: Terms) -> str:
        """What a member asked for that the group does not have; empty if nothing."""
        for field, name in _FIELDS:
            has, wants = getattr(self, field), getattr(asked, field)
            if has != wants:
                return f"group {self.name!r} has {name} {has!r}, not {wants!r}; forget the group to make it anew"
        return ""


_FIELDS: Final = (
    ("selector", "the selector"),
    ("key", "shared_by"),
    ("work_ms", "work_ms"),
    ("deliveries_max", "deliveries_max"),
)
