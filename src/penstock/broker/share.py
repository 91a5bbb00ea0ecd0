"""The share of a turn that recovery gets: how much a broker reads back, matches and delivers before others go on.

A subscriber that was away may be millions of messages behind. A broker works on that for a slice of a turn. If there is
more to do, it is due again at once: a broker with nothing else to do catches up without a pause, and live traffic waits
for one slice at most. Work is measured by its effort, not by the clock, so that a simulated broker cuts it in the same
places.

While a commit is under way, slices begin some time apart. In a live broker the store's thread needs the interpreter a
dozen times for each commit, and beside a loop that is never idle it waits for it each time: live messages took eight
milliseconds instead of one.
"""

from __future__ import annotations

from typing import Final

__all__ = ["DELIVERY_EFFORT", "MATCH_EFFORT", "MESSAGE_EFFORT", "SHARE_EFFORT_MAX", "Share"]

SHARE_EFFORT_MAX: Final = 4_000
"""The effort of one slice, in the unit of ``selectors.effort``: about two milliseconds."""
MESSAGE_EFFORT: Final = 6
"""The effort of taking an old message in hand and decoding it, besides that of the conditions it is tested by."""
MATCH_EFFORT: Final = 6
"""The effort of looking up who wants a message, besides that of the conditions that no index answers."""
DELIVERY_EFFORT: Final = 1
"""The effort of delivering a message to one connection: most of it is recording that, since frames are shared."""
_PATIENCE_MS: Final = 10
"""How long a slice waits for a commit: longer than most of them take, but recovery goes on beside a slow disk."""


class Share:
    """What is left of the present slice."""

    def __init__(self, effort_max: int = SHARE_EFFORT_MAX) -> None:
        assert effort_max > 0
        self._effort_max = effort_max
        self.resume_ms = 0
        """When the next slice may begin; 0 for at once."""
        self.effort_left = effort_max
        """Negative if the last piece of work took more than was left."""

    @property
    def is_spent(self) -> bool:
        """Whether the rest has to wait for the next slice."""
        # The last bit is not worth a piece of work of its own.
        return self.effort_left < self._effort_max // 8

    def begin(self, *, now_ms: int) -> None:
        """Begins the next slice, if it is time; to be called only after others had the chance of a turn."""
        if now_ms < self.resume_ms:
            return
        self.effort_left = self._effort_max
        if self.resume_ms:
            self.resume_ms = now_ms + _PATIENCE_MS

    def pause(self, *, now_ms: int) -> None:
        """A commit has begun: the next slice waits for its end, but not for long."""
        if not self.resume_ms:
            self.resume_ms = now_ms + _PATIENCE_MS

    def resume(self) -> None:
        """No commit is under way any more."""
        self.resume_ms = 0

    def spend(self, effort: int) -> None:
        """Takes work from the slice that was done."""
        assert effort >= 0
        self.effort_left -= effort
