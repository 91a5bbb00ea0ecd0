"""Tracks what one neighbour was told of one pubend on one connection: silence still to send, and filter versions.

Silence is relative to a filter (decision record 5): every knowledge message is understood together with the versions
of the filters, by host, that it was narrowed by. Only changes of these versions are sent, so a lane remembers what it
has sent; a dropped frame does not count as sent.
"""

from __future__ import annotations

from typing import Final

from penstock.protocol.frames import KnowledgeKind, KnowledgeMessage
from penstock.streams.knowledge import Knowledge, Versions

__all__ = ["NOBODY", "Lane", "heard_versions"]

NOBODY: Final[Versions] = {}
_VOID: Final = (-1, -1)


class Lane:
    """One pubend on one connection, in the direction away from this broker."""

    __slots__ = ("_is_new", "_saying", "_silent", "_told", "pubend")

    def __init__(self, pubend: str) -> None:
        self.pubend = pubend
        self._told = NOBODY
        self._is_new = True
        self._silent: Knowledge | None = None
        self._saying: Versions | None = None

    @property
    def has_silence(self) -> bool:
        """Whether silence waits to be sent with a message."""
        return self._silent is not None

    def wait(self, silence: Knowledge) -> Knowledge | None:
        """Keeps silence for later; returns the earlier silence to send first if the two cannot be merged."""
        before = self._silent
        if before is not None and before.last + 1 == silence.first and _same(before.versions, silence.versions):
            self._silent = Knowledge(self.pubend, before.first, silence.last, versions=silence.versions)
            return None
        self._silent = silence
        return before

    def join(self, following: Knowledge) -> list[Knowledge]:
        """Returns what to send now: the silence that waited and what follows, merged if possible."""
        before, self._silent = self._silent, None
        if before is None:
            return [following]
        if (
            following.kind is KnowledgeKind.LIVE
            and before.last + 1 == following.first
            and _same(before.versions, following.versions)
        ):
            return [
                Knowledge(
                    self.pubend, before.first, following.last, following.ticks, following.bodies, following.versions
                )
            ]
        return [before, following]

    def take_silence(self) -> Knowledge | None:
        """Takes out the silence that waited, if any."""
        silent, self._silent = self._silent, None
        return silent

    def says_nothing_new(self, versions: Versions) -> bool:
        """Whether the neighbour knows these versions already."""
        return not self._is_new and _same(self._told, versions)

    def frame(self, narrowed: Knowledge) -> KnowledgeMessage:
        """Makes the message for the neighbour; call ``sent`` or ``dropped`` afterwards."""
        told, versions = self._told, narrowed.versions
        assert versions is not None, "a neighbour must know by which filters knowledge was narrowed"
        changes: list[tuple[str, int, int]] = []
        self._saying = None
        if self._is_new or not _same(told, versions):
            changes = [(host, *each) for host, each in versions.items() if self._is_new or told.get(host) != each]
            # Silence on this link no longer says anything about hosts that now lie behind another one.
            changes += [(host, *_VOID) for host in told if host not in versions]
            self._saying = versions
        return KnowledgeMessage(
            self.pubend,
            narrowed.first,
            narrowed.last,
            narrowed.ticks,
            narrowed.bodies,
            kind=narrowed.kind,
            versions=tuple(changes),
            is_whole=self._is_new,
        )

    def sent(self) -> None:
        """The last frame was sent: the neighbour knows the versions in it."""
        self._is_new = False
        if self._saying is not None:
            self._told, self._saying = self._saying, None

    def dropped(self) -> None:
        """The last frame was dropped: the versions in it must be sent again."""
        self._saying = None


def heard_versions(before: Versions, frame: KnowledgeMessage) -> Versions:
    """Returns the versions that go with a message, given those of the previous one on the connection."""
    if not frame.versions and not frame.is_whole:
        return before
    versions = {} if frame.is_whole else dict(before)
    for host, incarnation, version in frame.versions:
        if incarnation < 0:
            versions.pop(host, None)
        else:
            versions[host] = (incarnation, version)
    return versions


def _same(one: Versions | None, other: Versions | None) -> bool:
    # Usually the same object, and it may have a thousand hosts.
    return one is other or one == other
