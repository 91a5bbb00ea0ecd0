"""The offload algorithms, which decide who moves to balance input, matching delay or output ([PADRES] section 5)."""

from __future__ import annotations

from typing import Final

import numpy as np

from penstock.balancing.offload.coverage import Coverage
from penstock.balancing.offload.instance import Leaver, Offload
from penstock.balancing.offload.prefixes import move_in_order
from penstock.model.metrics import DELAY, INPUT, OUTPUT

__all__ = ["offload_input", "offload_match", "offload_output", "offload_publishers"]

_LEAST: Final = 1e-12
"""The least by which a move must narrow the difference."""


def offload_input(work: Offload, coverage: Coverage) -> None:
    """Balance the input utilisation: members of the covering set move first ([PADRES] section 5.1).

    Repeatedly moves the member that brings the difference closest to zero, until nothing improves, the order flips, or
    the difference is within the balance threshold. A member is chosen only once.

    Deviation: the paper moves only members. A subscription to everything is a whole covering set by itself; if both
    brokers have one, moving it saves no input here and adds none there, but drives the outputs apart. Then input could
    never be balanced. But input utilisation is rate × matching delay, and each subscription adds to the delay: so
    subscriptions that add nothing to the partner's input follow, least traffic first.
    """
    offload_publishers(work)
    _move_members(work, coverage)
    if not work.is_done(INPUT):
        move_in_order(work, coverage, INPUT, np.flatnonzero((work.left > 0) & (work.added() <= 0)))


def offload_publishers(work: Offload) -> None:
    """Balance the input utilisation by publishers, whose moves change nothing else (ours: the paper's future work).

    Repeatedly moves the publisher that brings the difference closest to zero, until nothing improves. One that the
    partner would not even notice, since it publishes to a pubend there, is preferred to all others. An overload is
    relieved as far as the partner has room.
    """
    while not work.is_done(INPUT):
        choices = [(each, *work.after_leaving(each)) for each in work.leavers]
        now = abs(work.difference(INPUT))
        low, is_needed = work.settings.lower_overload, work.needs_relief(INPUT)
        best: tuple[tuple[bool, float], Leaver] | None = None
        for leaver, host, partner in choices:
            if max(partner.input, partner.cpu) > low and leaver.added_msg_s > 0:
                continue
            distance = abs(work.apart(host, partner)[INPUT])
            if distance >= now - _LEAST and not is_needed:
                continue
            rank = (leaver.added_msg_s > 0, distance)
            if best is None or rank < best[0]:
                best = (rank, leaver)
        if best is None:
            return
        work.let_leave(best[1])


def offload_match(work: Offload, coverage: Coverage) -> None:
    """Balance the matching delay: subscriptions of least traffic move first ([PADRES] section 5.2).

    Also relieves an overload of CPU, memory or input: then it continues until the broker is below the lower overload
    threshold.
    """
    if work.needs_relief(DELAY):
        offload_publishers(work)
    move_in_order(work, coverage, DELAY, np.flatnonzero(work.left > 0))


def offload_output(work: Offload, coverage: Coverage) -> None:
    """Balance the output utilisation, in two phases ([PADRES] section 5.3).

    Phase I moves subscriptions that the partner's covering set covers, most traffic first; Type I (reduces our input)
    before Type II (would, if all its subscribers could move) before Type III. Phase II moves the others, as in the
    input algorithm; it ends where it would call for that one, unless we are output-overloaded. A move of Phase II that
    makes the partner cover more of our interests leads back to Phase I.

    Deviation: the paper's Phase II ends as soon as the input utilisations are balanced. Where matching takes no time
    they always are, and output could never be balanced. Here the partner's may exceed ours by what the guard allows
    (``guard_share`` of the trigger), which starts no session: that, too, keeps the two algorithms out of each other's
    way.
    """
    while _first_phase(work, coverage) and _second_phase(work, coverage):
        pass


def _move_members(work: Offload, coverage: Coverage) -> None:
    chosen = np.zeros(len(work.left), np.bool_)
    while not work.is_done(INPUT):
        counts, differences = work.counts(INPUT)
        candidates = np.flatnonzero((counts > 0) & coverage.members & ~chosen)
        if not len(candidates):
            return
        place = int(candidates[np.argmin(np.abs(differences[candidates]))])
        chosen[place] = True
        work.take(place, int(counts[place]), float(differences[place]), is_covered=bool(coverage.covered[place]))
        coverage.arrive(place)
        if not work.present[place]:
            coverage.leave(place)


def _first_phase(work: Offload, coverage: Coverage) -> bool:
    """Moves interests the partner covers; returns whether there is more to do."""
    while not work.is_done(OUTPUT):
        counts, differences = work.counts(OUTPUT)
        candidates = np.flatnonzero((counts > 0) & coverage.covered)
        if not len(candidates):
            return True
        reduces = work.reduced()[candidates] > 0
        is_whole = counts[candidates] == work.left[candidates]
        kinds = np.where(reduces, np.where(is_whole, 1, 2), 3)
        place = int(candidates[np.lexsort((-work.rates[candidates], kinds))[0]])
        _take(work, coverage, place, int(counts[place]), float(differences[place]))
    return False


def _second_phase(work: Offload, coverage: Coverage) -> bool:
    """Moves interests the partner does not cover; returns whether it then covers more of those left."""
    while not work.is_done(OUTPUT):
        counts, differences = work.counts(OUTPUT)
        candidates = np.flatnonzero((counts > 0) & ~coverage.covered)
        if not len(candidates):
            return False
        place = int(candidates[np.argmin(np.abs(differences[candidates]))])
        if _take(work, coverage, place, int(counts[place]), float(differences[place])):
            return True
    return False


def _take(work: Offload, coverage: Coverage, place: int, count: int, difference: float) -> bool:
    work.take(place, count, difference, is_covered=bool(coverage.covered[place]))
    covers_more = coverage.arrive(place)
    if not work.present[place]:
        coverage.leave(place)
    return covers_more
