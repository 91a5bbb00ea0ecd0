"""The deliberate bugs that ``bench.mutants`` plants, and who must find each of them.

Bugs in brokers are found by a campaign. Bugs in what campaigns do not run, and in the judges of the campaigns
themselves, are found by tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["MUTANTS", "Mutant"]


@dataclass(slots=True, frozen=True)
class Mutant:
    """A bug: a text in one file of the package, and what stands there instead."""

    name: str
    what: str
    file: str
    old: str
    new: str
    campaign: str = "delivery"
    """The campaign that must find it, unless tests must."""
    tests: tuple[str, ...] = ()
    """The tests that must find it, as paths."""
    survives: str = ""
    """Why no seed has found it so far; it is hunted only if it is named, and listed as a hole in the proof."""


MUTANTS: Final = (
    Mutant(
        "ack-before-fsync",
        "publishers are acknowledged before their messages are durable",
        "broker/guaranteed.py",
        "return log.last_commit if log.last_commit > self._commits.durable else 0",
        "return 0",
    ),
    Mutant(
        "knowledge-before-fsync",
        "knowledge leaves before the messages in it are durable",
        "broker/guaranteed.py",
        '            self._router.counts["published"] += len(change.messages)\n',
        "            spoken = log.on_committed(log.last_commit, now_ms=now_ms)\n"
        "            self._now_ms = now_ms\n"
        "            if spoken is not None:\n"
        "                self._speak(log, spoken)\n",
    ),
    Mutant(
        "nack-range-forgotten",
        "the first range of every NACK is forgotten",
        "broker/carrier.py",
        "for first, last in nack.ranges:",
        "for first, last in nack.ranges[1:]:",
    ),
    Mutant(
        "delivers-above-doubt",
        "data beyond the doubt horizon is delivered with what lies before it",
        "streams/edge.py",
        "count = bisect_left(self._ticks, horizon)",
        "count = len(self._ticks)",
    ),
    Mutant(
        "old-silence-believed",
        "silence of an older version of the filter is believed",
        "broker/edges.py",
        "return version if incarnation == self._filters.incarnation else -1",
        "return COMPLETE",
    ),
    Mutant(
        "lease-ignored",
        "a restart begins at the last message instead of above the lease",
        "broker/pubend_log.py",
        "max(found.lease or 0, found.last_tick or 0, found.trimmed_below - 1, 0)",
        "max(found.last_tick or 0, found.trimmed_below - 1, 0)",
    ),
    Mutant(
        "dedup-forgotten",
        "what publishers have sent is forgotten at a restart",
        "broker/pubend_log.py",
        "self._sequences = dict(found.sequences)",
        "self._sequences: dict[bytes, int] = {}",
    ),
    Mutant(
        "cache-ignores-version",
        "a cache answers whatever the version of the asker's filter",
        "streams/cache.py",
        "if versions is not None and versions.get(host, _NONE) < version:",
        "if versions is not None and version < _NONE:",
    ),
    Mutant(
        "silence-not-voided",
        "silence goes on counting for hosts that lie behind another link now",
        "broker/lanes.py",
        "changes += [(host, *_VOID) for host in told if host not in versions]",
        "versions = {**told, **versions}",
    ),
    Mutant(
        "trimmed-is-silence",
        "what was trimmed from the log is answered as silence",
        "broker/guaranteed.py",
        "lost = Heard(nack.pubend, first, until, [], [], None, KnowledgeKind.LOST)",
        "lost = Heard(nack.pubend, first, until, [], [], None, KnowledgeKind.ANSWER)",
    ),
    Mutant(
        "resumes-too-late",
        "a subscription resumes one tick behind the position that it states",
        "broker/edges.py",
        "tick if wanted is None else wanted,",
        "tick if wanted is None else wanted + 1,",
    ),
    Mutant(
        "resumes-too-early",
        "a subscription resumes one tick before the position that it states",
        "broker/edges.py",
        "tick if wanted is None else wanted,",
        "tick if wanted is None else wanted - 1,",
    ),
    Mutant(
        "joins-too-early",
        "a catch-up joins the shared stream before it has reached it",
        "broker/edge.py",
        "if catch_up.ready or horizon < self.stream.horizon or self.stream.horizon < catch_up.meets_at:",
        "if catch_up.ready or self.stream.horizon < catch_up.meets_at:",
    ),
    Mutant(
        "joins-unconfirmed",
        "a catch-up joins the shared stream where that may lack what its members want",
        "broker/edge.py",
        "if catch_up.ready or horizon < self.stream.horizon or self.stream.horizon < catch_up.meets_at:",
        "if catch_up.ready or horizon < self.stream.horizon:",
        survives="open: needs old silence between a catch-up's answer and the tick of its confirmation",
    ),
    Mutant(
        "first-asker-only",
        "of several that asked for the same ticks only the first is answered",
        "broker/carrier.py",
        "for child, ranges in self._books[pubend].answered(heard.first, heard.last).items():",
        "for child, ranges in sorted(self._books[pubend].answered(heard.first, heard.last).items())[:1]:",
        survives="costs time, not messages: the others ask again after a second, and are answered then",
    ),
    Mutant(
        "answers-misdirected",
        "answers go to the first neighbour, whoever asked",
        "broker/carrier.py",
        "self.answer(child, heard.within(part.first, part.last))",
        "self.answer(min(self._connections.links, default=child), heard.within(part.first, part.last))",
    ),
    Mutant(
        "dropped-is-said",
        "versions in a frame that was dropped count as said",
        "broker/carrier.py",
        "            lane.dropped()\n",
        "            lane.sent()\n",
    ),
    Mutant(
        "gap-ignored",
        "what comes after a gap is taken as if nothing were missing",
        "streams/edge.py",
        "if first <= self.horizon:\n",
        "if first <= self.horizon or not self._known:\n",
    ),
    Mutant(
        "horizon-above-catch-up",
        "clients that are catching up are told the horizon of the shared stream",
        "broker/positions.py",
        "keys = [key for key, tick in edge.later.items() if tick == NEVER]",
        "keys = [key for key, tick in edge.later.items() if tick == -NEVER]",
    ),
    Mutant(
        "acknowledged-unread",
        "a host reports its own horizon instead of what its clients have acknowledged",
        "broker/positions.py",
        "yield pubend, min([edge.position(), *(each[pubend] for each in known if pubend in each)])",
        "yield pubend, edge.position()",
    ),
    Mutant(
        "starts-ignored",
        "what the shared stream delivers goes to all, wherever they begin",
        "broker/edges.py",
        "later = edge.later or None",
        "later = None",
    ),
    Mutant(
        "answers-before-commit",
        "a durable name is given away before the register is durable",
        "broker/pubend_desk.py",
        "        self._replies.append(_Reply(commit, frame.pubend, frame.host, answer))\n"
        "        if former is not None:",
        "        self._send(frame.pubend, frame.host, answer)\n        if former is not None:",
    ),
    Mutant(
        "name-not-registered",
        "the claim of a durable name never becomes durable",
        "broker/pubend_desk.py",
        "commit = self._commits.add(register.claim(frame.durable, frame.ownership, frame.host, tick))",
        "change = register.claim(frame.durable, frame.ownership, frame.host, tick)\n"
        '        commit = self._commits.add(SetValue(change.name + "?", change.value))',
    ),
    Mutant(
        "lower-owner-counts",
        "positions count that come from somebody who lost the name",
        "broker/register.py",
        "if known is None or ownership < known.ownership:",
        "if known is None:",
    ),
    Mutant(
        "durables-not-held",
        "trimming ignores the positions of durable subscriptions",
        "broker/finality.py",
        "final = min(final, furthest[1])",
        "final = min(final, log.promised + 1)",
    ),
    Mutant(
        "durable-off-by-one",
        "a durable subscription begins one tick behind its position",
        "broker/pubend_desk.py",
        "tick = max(known, stated) if frame.resumes and frame.tick != LATEST else known",
        "tick = max(known, stated) if frame.resumes and frame.tick != LATEST else known + 1",
    ),
    Mutant(
        "resumes-from-register",
        "a durable subscription whose client lives begins where the register says",
        "broker/pubend_desk.py",
        "tick = max(known, stated) if frame.resumes and frame.tick != LATEST else known",
        "tick = known",
    ),
    Mutant(
        "opened-ignored",
        "where the pubend said that a subscription begins is ignored: it begins now",
        "broker/edge.py",
        "return self.opened.get(pubend, self.positions.get(pubend))",
        "return self.positions.get(pubend)",
    ),
    Mutant(
        "taken-not-ended",
        "a name that was taken over stays with its former owner as well",
        "broker/edges.py",
        "ended = [each for each in named if each.ownership < ownership]",
        "ended: list[HostSubscription] = []",
    ),
    Mutant(
        "acknowledged-by-arrival",
        "a durable position moves with what was sent, not with what was acknowledged",
        "broker/positions.py",
        "reached = min(tick, edge.stream.horizon)",
        "reached = edge.stream.horizon",
    ),
    Mutant(
        "forget-keeps",
        "a name that is forgotten keeps its position",
        "broker/register.py",
        "if self._names.pop(name, None) is None:",
        "if self._names.get(name) is None:",
    ),
    Mutant(
        "missing-is-earliest",
        "`fail` is taken as `earliest` where a position is not kept any more",
        "broker/pubend_desk.py",
        'if frame.missing == "earliest" or',
        'if frame.missing != "latest" or',
    ),
    Mutant(
        "earliest-is-now",
        "whoever wants the earliest begins at what is published from now on",
        "broker/pubend_desk.py",
        '            return log.trimmed_below, ""\n',
        '            return following, ""\n',
    ),
    Mutant(
        "claim-begins-anew",
        "a name that is claimed again begins at what is published from now on",
        "broker/pubend_desk.py",
        "tick, problem = self._beginning(log, frame, None if known is None else known.tick, now_ms)",
        "tick, problem = self._beginning(log, frame, None, now_ms)",
    ),
    Mutant(
        "missing-moves-what-resumes",
        "what `missing` says of new subscriptions moves those that go on, without a notice",
        "broker/pubend_desk.py",
        'is_going_on = frame.resumes or (known is not None and frame.missing != "fail")',
        'is_going_on = frame.resumes and frame.missing == "fail"',
    ),
    Mutant(
        "half-the-grace",
        "a host that was restarted counts as settled after half of its clients' grace",
        "broker/guaranteed.py",
        "is_settled = now_ms >= self._started_ms + self._settings.grace_ms",
        "is_settled = now_ms >= self._started_ms + self._settings.grace_ms // 2",
    ),
    Mutant(
        "settled-at-once",
        "a host that was restarted counts as settled at once",
        "broker/guaranteed.py",
        "is_settled = now_ms >= self._started_ms + self._settings.grace_ms",
        "is_settled = True",
    ),
    Mutant(
        "restarted-host-raises",
        "a host that was restarted may raise its word before it is settled",
        "broker/finality.py",
        "tick = min(tick, log.trimmed_below if before is None else before.tick)",
        "tick = min(tick, log.trimmed_below) if before is None else tick",
    ),
    Mutant(
        "restarted-host-unknown",
        "the word of a restarted host counts where its former one is not known",
        "broker/finality.py",
        "tick = min(tick, log.trimmed_below if before is None else before.tick)",
        "tick = tick if before is None else min(tick, before.tick)",
        tests=("tests/broker/test_finality.py",),
    ),
    Mutant(
        "class-forgotten-by-client",
        "the client library sends again what it had sent to a best-effort pubend",
        "client/publishing.py",
        "return pubend not in before.best_effort and pubend not in now.best_effort",
        "return pubend not in now.best_effort",
        tests=("tests/client/test_session.py",),
    ),
    Mutant(
        "chosen-class-forgotten",
        "what a broker chose a best-effort pubend for is sent again when it would choose a guaranteed one",
        "client/publishing.py",
        "chooses_alike = guaranteed[0] == guaranteed[1] != []",
        "chooses_alike = guaranteed[1] != []",
        tests=("tests/client/test_session.py",),
    ),
    Mutant(
        "best-effort-moves-positions",
        "the tick of a best-effort message counts as a position",
        "sim/client.py",
        "if f.is_guaranteed_number(frame.pubend):",
        "if frame.pubend >= 0:",
    ),
    Mutant(
        "best-effort-moves-clients",
        "the client library takes the tick of a best-effort message for a position",
        "client/received.py",
        "kind = Received if is_guaranteed_number(number) else BestEffortReceived",
        "kind = Received if number >= 0 else BestEffortReceived",
        tests=("tests/client",),
    ),
    Mutant(
        "two-owners-at-a-host",
        "who claims a durable name does not end a former owner at the same host",
        "broker/stream_desk.py",
        "self._end_below(opening.subscription.durable, opening.subscription.ownership)",
        "pass",
        tests=("tests/broker/test_stream_desk.py",),
    ),
    Mutant(
        "believes-too-much",
        "an acknowledgement above what the host has sent is believed",
        "broker/positions.py",
        "reached = min(tick, edge.stream.horizon)",
        "reached = tick",
        tests=("tests/broker/test_positions.py",),
    ),
    Mutant(
        "all-selectors-arrive",
        "what arrives must cover all selectors of an interest at once to be looked at",
        "balancing/offload/coverage.py",
        "if any(one.covers(each)",
        "if all(one.covers(each)",
        tests=("tests/balancing/offload/test_coverage.py",),
    ),
    Mutant(
        "all-selectors-leave",
        "members are found anew only if every selector that leaves changes something",
        "balancing/offload/coverage.py",
        "if any(change.entered or change.left",
        "if all(change.entered or change.left",
        tests=("tests/balancing/offload/test_coverage.py",),
    ),
    Mutant(
        "all-selectors-members",
        "an interest is a member only if all its selectors are",
        "balancing/offload/coverage.py",
        "and any(one in roots",
        "and all(one in roots",
        tests=("tests/balancing/offload/test_coverage.py",),
    ),
    Mutant(
        "late-filters-overwritten",
        "a history that begins anew uses the numbers of its late filters again",
        "tracking/recorder.py",
        "first_id = max(self.catalogue.last_id(key), self.catalogue.last_id(key.late)) + 1",
        "first_id = self.catalogue.last_id(key) + 1",
        tests=("tests/tracking/test_recorder.py",),
    ),
    Mutant(
        "judge-pairs-by-position",
        "the campaign takes what one subscription acknowledged for another's",
        "sim/lives.py",
        "        for record, acknowledged in last:\n",
        "        still = [each for each, _ in last if each.ended_us is None]\n"
        "        for record, (_, acknowledged) in zip(still, last, strict=False):\n",
        tests=("tests/sim/test_lives.py",),
    ),
    Mutant(
        "judge-forgets-behind",
        "a second horizon hides how far behind a client was that moved",
        "sim/moving.py",
        "arrival.behind.setdefault(key, reached)",
        "arrival.behind[key] = reached",
        tests=("tests/sim/test_moving.py",),
    ),
    Mutant(
        "judge-blind-to-skips",
        "the judge does not mind a life that begins above what was acknowledged",
        "sim/names.py",
        "if each.start.tick > bound:",
        "if each.start.tick > bound + 2**62:",
        tests=("tests/sim/test_names.py",),
    ),
    Mutant(
        "judge-excuses-everything",
        "the judge excuses what a client was told is lost, wherever that is",
        "sim/verdict.py",
        "return self._may_lapse or (pubend in record.asked and is_old) or self._was_away(record)",
        "return True",
        tests=("tests/sim/test_verdict.py",),
    ),
    Mutant(
        "judge-deaf-to-notices",
        "the judge excuses what nobody was told is lost",
        "sim/verdict.py",
        "if not any(lost.first <= tick <= lost.last for lost in told):",
        "if not self._may_lapse and not any(lost.first <= tick <= lost.last for lost in told):",
        tests=("tests/sim/test_verdict.py",),
    ),
    Mutant(
        "judge-lets-repeat",
        "the judge does not see a message that comes twice",
        "sim/verdict.py",
        "            if place in got[number]:\n",
        "            if place in got[number] and not self._messages:\n",
        tests=("tests/sim/test_verdict.py",),
    ),
)
