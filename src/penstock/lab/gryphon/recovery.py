"""A recovery as in the paper's first experiment: IB-SB2 fails and comes back over a narrow PB-IB ([Gryphon] section 5).

``recovery_s`` runs from link-up until SB2's slowest edge stream is within a second of its pubend; a recovery that does
not end within the observation counts as that long. ``restore_s`` runs from then until each pubend has published 90 % of
its offered rate for two seconds; again at most the observation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from penstock.congestion.settings import CongestionSettings
from penstock.lab.gryphon.overlay import OFFERED_MSG_S, SIMPLE, GryphonOverlay
from penstock.lab.gryphon.series import Sample, between, mean, mean_rate, rates, smoothed
from penstock.model.reporting import Reporter

__all__ = ["Recovery", "lose", "recover", "recovery_figures", "regain"]

_WARM_S: Final = 20
_DONE_S: Final = 1.0
_RESTORED: Final = 0.9


@dataclass(slots=True)
class Recovery:
    """A recovery, with the times of its phases."""

    overlay: GryphonOverlay
    failed_s: float
    up_s: float
    done_s: float
    """When SB2 had recovered; the end of the observation if it had not."""
    is_done: bool
    end_s: float

    @property
    def recovery_s(self) -> float:
        """How long the recovery took."""
        return self.done_s - self.up_s


def recover(
    settings: CongestionSettings,
    reporter: Reporter,
    *,
    seed: int,
    kbytes_s: float,
    down_s: int,
    limit_s: int,
    after_s: int,
) -> Recovery:
    """Cut SB2 off for a while, and watch it recover over a narrow trunk for at most ``limit_s``."""
    overlay = lose(settings, reporter, seed=seed, kbytes_s=kbytes_s, down_s=down_s)
    return regain(overlay, reporter, down_s=down_s, limit_s=limit_s, after_s=after_s)


def lose(
    settings: CongestionSettings, reporter: Reporter, *, seed: int, kbytes_s: float, down_s: int
) -> GryphonOverlay:
    """Make an overlay whose SB2 has been cut off for ``down_s``, and still is."""
    overlay = GryphonOverlay(SIMPLE, settings, seed=seed)
    overlay.throttle("PB", "IB", kbytes_s)
    overlay.run(_WARM_S)
    reporter.stage(f"IB-SB2 is down for {down_s} s", total=down_s)
    overlay.fail("IB", "SB2")
    for _ in range(down_s):
        overlay.run(1)
        reporter.advance()
    return overlay


def regain(overlay: GryphonOverlay, reporter: Reporter, *, down_s: int, limit_s: int, after_s: int) -> Recovery:
    """Reconnect SB2, and watch it recover for at most ``limit_s``."""
    failed_s = overlay.now_s - down_s
    overlay.mend("IB", "SB2")
    up_s = overlay.now_s
    reporter.stage("SB2 recovers")
    # At link-up the stream may not know yet what it missed, and look recovered: let a second pass first.
    overlay.run(1)
    is_done = overlay.run_until(lambda: overlay.lag_s("SB2") < _DONE_S, limit_s=limit_s - 1)
    done_s = overlay.now_s
    reporter.stage("rates are restored", total=after_s)
    for _ in range(after_s if is_done else 0):
        overlay.run(1)
        reporter.advance()
    end_s = overlay.now_s
    if is_done:
        overlay.stop()
    return Recovery(overlay, failed_s, up_s, done_s, is_done, end_s)


def recovery_figures(found: Recovery) -> dict[str, float]:
    """The figures of a recovery."""
    samples, up_s, done_s = found.overlay.samples, found.up_s, found.done_s

    def rate(first_s: float, last_s: float) -> float:
        return round(mean_rate(samples, lambda each: sum(each.published), first_s=first_s, last_s=last_s), 1)

    return {
        "recovery_s": round(found.recovery_s, 1),
        "recovered": float(found.is_done),
        "rate_before": rate(up_s - 20, up_s),
        "rate_in_recovery": rate(up_s, done_s),
        "rate_after": rate(found.end_s - 10, found.end_s),
        "restore_s": round(_restore_s(found), 1),
        **_window_figures(found),
        "min_pubend_share": round(_min_share(found), 3),
    }


def _restore_s(found: Recovery) -> float:
    """Time from recovery until the last pubend has its rate back."""
    samples = between(found.overlay.samples, found.done_s - 2, found.end_s)
    wanted = _RESTORED * OFFERED_MSG_S / len(found.overlay.pubends)
    longest = 0.0
    for place in range(len(found.overlay.pubends)):
        points = smoothed(rates(samples, partial(_published_to, place)), seconds=2)
        restored = [at_s for at_s, figure in points if at_s > found.done_s and figure >= wanted]
        longest = max(longest, (restored[0] if restored else found.end_s) - found.done_s)
    return longest


def _published_to(place: int, sample: Sample) -> float:
    return sample.published[place]


def _window_figures(found: Recovery) -> dict[str, float]:
    """The NACK windows of SB2: the mean in the middle third of the recovery, and the largest."""
    third_s = found.recovery_s / 3
    middle = between(found.overlay.samples, found.up_s + third_s, found.done_s - third_s)
    windows = [each.windows_ms["SB2"] for each in between(found.overlay.samples, found.up_s, found.done_s)]
    return {
        "nack_window_plateau_ms": round(mean([window for each in middle for window in each.windows_ms["SB2"]]), 1),
        "nack_window_max_ms": max((window for each in windows for window in each), default=0),
    }


def _min_share(found: Recovery) -> float:
    """Messages of the pubend that published least in the recovery, as a share of the mean."""
    window = between(found.overlay.samples, found.up_s, found.done_s)
    counts = [last - first for first, last in zip(window[0].published, window[-1].published, strict=True)]
    return min(counts) / mean(counts) if any(counts) else 0.0
