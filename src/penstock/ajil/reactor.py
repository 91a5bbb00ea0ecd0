"""The reactor: cuts quotas in the reaction domain, and raises them again ([Ajil] section 4.3, pseudocode 1).

Deviations, each measured:
- The multiplier persists while a slowdown lasts. The pseudocode sets it to 1 whenever the domain is entered, and then
  it never damps; line 3's second "/2" is a misprint.
- A quota may be cut again after it was raised. "Do not decrease after they have increased" (section 5.3), taken
  strictly, leaves the traffic 13 to 17 % above the limit.
- Where traffic over a quota is delayed, demand does not go away: before a channel with a backlog is cut, its multiplier
  doubles, up to 1. Multipliers halved while traffic oscillated about the limit would leave cuts too small to bring it
  back, and with few channels it would stay 2 to 4 % above the limit.
- No channel is held down for ever. One that was cut by much needs much room at once to rise; if there was some room,
  but never enough, it asks for half as much after a while, and at first for no more than the limit.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from penstock.ajil.amounts import Floats
from penstock.ajil.policy import SlowdownPolicy

__all__ = ["HOLD_EPOCHS_MAX", "MULTIPLIER_MIN", "Reactor"]

MULTIPLIER_MIN: Final = 1 / 64
"""A slowdown whose multiplier is below this is over."""
HOLD_EPOCHS_MAX: Final = 32
"""A channel that could not rise for this long asks for half as much."""


class Reactor:
    """The quotas of one node's channels in one unit, per epoch."""

    def __init__(self) -> None:
        self.quota: Floats = np.empty(0)
        """How much each channel may send in an epoch; infinite if it is not slowed down."""
        self.multiplier: Floats = np.empty(0)
        self.last_cut: Floats = np.empty(0)
        self._held: Floats = np.empty(0)
        """For how many epochs in a row each channel could not rise, though the limit was kept."""
        self.is_slowing = False
        """Whether any channel is slowed down."""

    def resize(self, channels: int) -> None:
        """Grows to this many channels; new ones are not slowed down."""
        more = channels - len(self.quota)
        assert more >= 0, f"{len(self.quota)} channels cannot become {channels}"
        self.quota = np.concatenate([self.quota, np.full(more, np.inf)])
        self.multiplier = np.concatenate([self.multiplier, np.ones(more)])
        self.last_cut = np.concatenate([self.last_cut, np.zeros(more)])
        self._held = np.concatenate([self._held, np.zeros(more)])

    def release(self, channel: int) -> None:
        """Frees the place of a closed channel for another."""
        self.quota[channel], self.multiplier[channel], self.last_cut[channel] = np.inf, 1.0, 0.0

    def cut(
        self,
        hit: NDArray[np.bool_],
        sent: Floats,
        scale: Floats | None,
        policy: SlowdownPolicy,
        *,
        estimate: float,
        limit: float,
        waiting: NDArray[np.bool_] | None = None,
    ) -> None:
        """Cuts the quotas of the channels that are hit, since the limit is exceeded; half the cut if that is enough.

        The scale is the share of a cut that each channel suffers, None for all of it. ``waiting`` marks the channels
        that have a backlog.
        """
        assert estimate > limit
        places = np.flatnonzero(hit)
        if waiting is not None:
            firm = places[waiting[places]]
            self.multiplier[firm] = np.minimum(self.multiplier[firm] * 2, 1.0)
        # A channel that is not slowed down yet starts from what it has sent.
        quota = self.quota[places]
        base = np.where(np.isfinite(quota), quota, sent[places])
        full = policy.cut(base, self.multiplier[places], estimate=estimate, limit=limit)
        full = np.minimum(full if scale is None else full * scale[places], base)
        if not full.all():
            touched = full > 0
            places, base, full = places[touched], base[touched], full[touched]
        if not len(places):
            return
        gentle = estimate - full / 2 <= limit
        cut = np.where(gentle, full / 2, full)
        self.quota[places] = base - cut
        # There is never room for more than the limit.
        self.last_cut[places] = np.minimum(cut, limit)
        self.multiplier[places[gentle]] /= 2
        self._held[places] = 0
        self.is_slowing = True
        if gentle.any():
            self._end_slowdowns()

    def rise(self, *, estimate: float, limit: float, waiting: NDArray[np.bool_] | None = None) -> None:
        """Raises quotas, since there is room: each channel gets half of its last cut back if that keeps the limit.

        ``waiting`` marks the channels that have a backlog.
        """
        if not self.is_slowing:
            return
        rising = np.isfinite(self.quota) & (estimate + self.last_cut / 2 <= limit)
        self._held = np.where(rising, 0, self._held + 1)
        tired = self._held >= HOLD_EPOCHS_MAX
        if tired.any():
            self.last_cut[tired] /= 2
            self._held[tired] = 0
        if not rising.any():
            return
        self.last_cut = np.where(rising, self.last_cut / 2, self.last_cut)
        self.quota = np.where(rising, self.quota + self.last_cut, self.quota)
        self.multiplier = np.where(rising, self.multiplier / 2, self.multiplier)
        if waiting is not None:
            self._begin_anew(waiting & (self.multiplier < MULTIPLIER_MIN), estimate, limit)
        self._end_slowdowns()

    def _begin_anew(self, again: NDArray[np.bool_], estimate: float, limit: float) -> None:
        if again.any():
            room = limit - estimate
            share = min(room / estimate, 1.0) if estimate > 0 else 1.0
            # At least a little: a quota of 0 would ask for nothing.
            self.last_cut[again] = np.maximum(self.quota[again] * share, room / 16)
            self.multiplier[again] = 1.0

    def clear(self) -> None:
        """Ends all slowdowns."""
        self.quota[:], self.multiplier[:], self.last_cut[:] = np.inf, 1.0, 0.0
        self.is_slowing = False

    def check_invariants(self) -> None:
        """Fails if a quota or a multiplier is not sound."""
        assert (self.quota >= 0).all(), "a quota is negative"
        slowed = np.isfinite(self.quota)
        assert (self.last_cut[slowed] >= 0).all(), "a last cut is negative"
        assert ((self.multiplier >= MULTIPLIER_MIN) & (self.multiplier <= 1)).all(), "a multiplier is out of range"
        assert self.is_slowing or not slowed.any(), "a channel is slowed down, and nobody knows"

    def _end_slowdowns(self) -> None:
        over = self.multiplier < MULTIPLIER_MIN
        if over.any():
            self.quota[over], self.multiplier[over], self.last_cut[over] = np.inf, 1.0, 0.0
        self.is_slowing = bool(np.isfinite(self.quota).any())
