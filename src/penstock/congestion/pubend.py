"""Congestion control of one pubend at its own broker: PDCC and the shaper that enforces it ([Gryphon] section 4)."""

from __future__ import annotations

from penstock.congestion.messages import Dcq, Uca
from penstock.congestion.pdcc import Pdcc
from penstock.congestion.settings import CongestionSettings
from penstock.congestion.shaper import Shaper

__all__ = ["PubendControl"]


class PubendControl:
    """Decides when a pubend may give out ticks, sends its DCQs and handles its UCAs."""

    def __init__(self, settings: CongestionSettings, *, now_ms: int) -> None:
        self._settings = settings
        self.pdcc = Pdcc(settings, now_ms=now_ms)
        self.shaper = Shaper(settings, now_ms=now_ms)

    @property
    def rate_msg_s(self) -> float | None:
        """The rate that is allowed; None without limit."""
        return self.pdcc.rate_msg_s

    def tune(self, settings: CongestionSettings, *, now_ms: int) -> None:
        """Applies other settings from now on."""
        self._settings = self.pdcc.settings = self.shaper.settings = settings
        self.shaper.set_rate(self.pdcc.rate_msg_s, now_ms=now_ms)

    def silence_ms(self, usual_ms: int) -> int:
        """How long the pubend may go without messages before it announces silence: less while it is limited."""
        return min(usual_ms, self._settings.silence_limited_ms) if self.pdcc.is_limited else usual_ms

    def admit(self, wanted: int, *, now_ms: int) -> int:
        """How many of these messages may get their ticks now; the others wait until ``next_ms``."""
        granted = self.shaper.grant(wanted, now_ms=now_ms)
        if granted:
            self.pdcc.on_published(granted, now_ms=now_ms)
        if granted < wanted:
            self.pdcc.on_held_back()
        return granted

    def next_ms(self, *, now_ms: int) -> int:
        """When the next message may get its tick."""
        return self.shaper.next_ms(now_ms=now_ms)

    def next_deadline(self) -> int | None:
        """When the next DCQ is due."""
        return self.pdcc.next_deadline()

    def on_deadline(self, position: int, *, now_ms: int) -> Dcq | None:
        """The DCQ to send now, if one is due; may change the rate."""
        dcq = self.pdcc.on_deadline(position, now_ms=now_ms)
        self.shaper.set_rate(self.pdcc.rate_msg_s, now_ms=now_ms)
        return dcq

    def on_uca(self, uca: Uca, *, now_ms: int) -> bool:
        """Handles an alert; returns whether it cut the rate."""
        is_cut = self.pdcc.on_uca(uca, now_ms=now_ms)
        self.shaper.set_rate(self.pdcc.rate_msg_s, now_ms=now_ms)
        return is_cut

    def check_invariants(self) -> None:
        """Fails if the parts do not agree."""
        self.pdcc.check_invariants()
        self.shaper.check_invariants()
        assert self.shaper.rate_msg_s == self.pdcc.rate_msg_s, "the shaper enforces the rate that is allowed"
