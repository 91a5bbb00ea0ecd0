"""Simulated workers: applications that are members of groups, do what they are handed, and sometimes fail to.

A worker takes a message and works on it for a while. Then it acknowledges, refuses or extends it, is late, or forgets
about it. Most workers take every message at once. Slow ones read the next message only when they have time, and the
session asks for more time for those that wait. What a worker was handed and what it said of each message is kept for
the judge. A worker that is told that its group was forgotten joins it again after a while.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final

from penstock.broker.host.work import identity_of
from penstock.protocol.frames import Frame, Join, Outcomes, Verdicts
from penstock.protocol.work_frames import Outcome, Verdict
from penstock.session.inbox import Inbox
from penstock.session.received import HandedOut, Received
from penstock.session.work import Said, Shared
from penstock.sim.client import SimClient
from penstock.sim.link import End

__all__ = ["GroupPlan", "Job", "Worker"]

_WORK_MS: Final = (0, 1, 20, 200, 1_500)
"""How long work takes, if it does not depend on the time that there is."""
_CAREFUL_MS_MAX: Final = 20
"""How long work takes at most in the end."""
_DELAYS_MS: Final = (0, 0, 300, 3_000)
_USUAL: Final = (0.03, 0.06, 0.16, 0.24)
"""Up to which chance a message is forgotten, acknowledged late, refused, or extended once and then acknowledged."""
_CLUMSY: Final = (0.06, 0.10, 0.50, 0.55)
"""The same for a clumsy worker."""
_READS_MS: Final = (1, 20, 20, 200, 200, 1_500, 5_000)
"""How long a slow worker is busy with a message before it reads the next."""
_JOINS_AGAIN_MS: Final = (1, 500, 4_000)
"""How long until a worker joins a group again that was forgotten."""
_Attempt = tuple[str, int, int]
"""A pubend, a tick and an attempt."""


@dataclass(slots=True, frozen=True)
class GroupPlan:
    """A group, as all its members ask for it."""

    shared: Shared
    selector: str
    start: int
    """Where it begins: 0 for all there is, else with new messages."""
    pubends: tuple[str, ...] = ()
    """The pubends that it works on; none for all."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.shared.group


@dataclass(slots=True, eq=False)
class Job:
    """A message that a worker was handed."""

    worker: str
    number: int
    """The worker's subscription."""
    group: GroupPlan
    message: HandedOut
    handed_us: int
    said: list[tuple[int, Said]] = field(default_factory=list)
    """What the worker said of it, each with the time."""
    member: bytes = b""
    """What pubends know the worker's subscription by."""
    eras: set[int] = field(default_factory=set)
    """When the groups were made that it may come from: usually there is one; none if that is not known."""

    def has_said(self, *verdicts: Verdict) -> bool:
        """Whether the worker said one of these of it."""
        return any(said.verdict in verdicts for _, said in self.said)


class Worker(SimClient):
    """A client that is a member of groups."""

    def __init__(self, *arguments: Any, on_job: Callable[[Job], None], **options: Any) -> None:
        """Make a worker, which tells of every message that it is handed."""
        self._on_job = on_job
        self.groups: dict[int, GroupPlan] = {}
        """The groups of all its subscriptions, by their numbers, those that it has left included."""
        self.identities: dict[bytes, int] = {}
        """By what pubends know it by: the number of the subscription."""
        self.left_us: dict[int, int] = {}
        """By subscription: when it left, or died."""
        self.extended_us: dict[tuple[bytes, str, int, int], int] = {}
        """By member, pubend, tick and attempt: since when a message is its own once more, as it asked for more time."""
        self.is_careful = False
        """Whether it acknowledges everything soon from now on."""
        self.is_slow = False
        """Whether it reads messages one by one, each when it has time."""
        self.is_clumsy = False
        """Whether it fails more often than others."""
        self.read_late = 0
        """Messages that it read when it had been given more time for them."""
        self._stalled_us = self._busy_us = 0
        self._members: dict[int, bytes] = {}
        self._asked_us: dict[tuple[int, _Attempt], int] = {}
        """When it first asked for more time, of what has no answer yet."""
        super().__init__(*arguments, **options)
        self._habits = Random(f"{self.name}/{self._around.seed}/habits")
        self._haste = Random(f"{self.name}/{self._around.seed}/haste")

    # --- being a member

    def join(self, plan: GroupPlan) -> None:
        """Become a member of a group."""
        number = self.subscribe(plan.selector, otherwise=plan.start, shared=plan.shared, pubends=plan.pubends)
        self.groups[number] = plan

    def quit(self, number: int) -> None:
        """Leave a group."""
        self.left_us[number] = self.clock.now_us
        self.unsubscribe(number)

    def die(self, *, loud: bool) -> None:
        """End the process: what it was handed is not known any more."""
        for number in self.wanted:
            self.left_us[number] = self.clock.now_us
        self._asked_us.clear()
        super().die(loud=loud)

    def stall(self, ms: int) -> None:
        """Do nothing for a while, though the connection stands."""
        self._stalled_us = self.clock.now_us + ms * 1_000
        if self.is_slow:
            self.clock.at(self._stalled_us, self._read_on)

    def be_careful(self) -> None:
        """Read and acknowledge everything soon, from now on."""
        self.is_careful, self._stalled_us = True, 0
        self._read_on()

    def is_member(self, number: int) -> bool:
        """Whether it has neither left nor died since it joined."""
        return number in self.groups and number not in self.left_us

    def member(self, number: int) -> bytes:
        """What pubends know a subscription by."""
        return self._members.get(number, b"")

    def confirmed_us(self, member: bytes, pubend: str) -> int | None:
        """Since when its broker says that it belongs to a group at a pubend; None if it does not."""
        record = self._records.get(self.identities.get(member, 0))
        if record is None or not record.is_confirmed or pubend in record.pending:
            return None
        return record.periods[-1].from_us

    def _identity(self) -> str:
        # A new process is another member.
        return f"{self.name}/{self.deaths}"

    def _on_said(self, line: int, frame: Frame) -> None:
        if isinstance(frame, Join):
            # Numbers on the wire start over in every life.
            numbers = {inbox.number: number for number, inbox in self._inboxes.items()}
            identity, number = identity_of(self.name, frame.member, frame.number), numbers[frame.number]
            self.identities[identity], self._members[number] = number, identity
        elif isinstance(frame, Verdicts):
            for tick, attempt, verdict, *_ in frame.verdicts:
                if verdict == Verdict.EXTENDED:
                    self._asked_us.setdefault((frame.number, (frame.pubend, tick, attempt)), self.clock.now_us)
        super()._on_said(line, frame)

    def on_frames(self, end: End, frames: list[Frame]) -> None:
        """Handle a broker's frames, and note which messages it has got more time for."""
        numbers = {inbox.number: number for number, inbox in self._inboxes.items()}
        for frame in frames:
            if isinstance(frame, Outcomes):
                for tick, attempt, verdict, outcome in frame.outcomes:
                    asked_us = None
                    if verdict == Verdict.EXTENDED:
                        asked_us = self._asked_us.pop((frame.number, (frame.pubend, tick, attempt)), None)
                    member = self._members.get(numbers.get(frame.number, 0))
                    if asked_us is not None and outcome == Outcome.KEPT and member is not None:
                        self.extended_us[member, frame.pubend, tick, attempt] = asked_us
        super().on_frames(end, frames)

    # --- working

    def _read(self, inbox: Inbox) -> list[Received]:
        if self.is_careful or not self.is_slow or inbox.is_over:
            return inbox.pop_many()
        if not inbox.queue or self.clock.now_us < max(self._busy_us, self._stalled_us):
            return []
        self._busy_us = self.clock.now_us + self._haste.choice(_READS_MS) * 1_000
        self.clock.at(self._busy_us, self._read_on)
        return inbox.pop_many(1)

    def _read_on(self) -> None:
        """Read what has arrived meanwhile, as far as there is time."""
        if self.is_away:
            # A machine that sleeps wakes up with its clients.
            self.clock.after(1_000_000, self._read_on)
            return
        for inbox in list(self._inboxes.values()):
            if inbox.work is not None and not inbox.is_over:
                self._take(inbox)

    def _take(self, inbox: Inbox) -> None:
        super()._take(inbox)
        number = self.witness.record_of(inbox).number
        if inbox.state == "refused" and number not in self.left_us:
            self.left_us[number] = self.clock.now_us
            self.note(f"is a member of {self.groups[number].name} no more: {inbox.reason}")
            ms = self._haste.choice(_JOINS_AGAIN_MS)
            self.clock.after(ms * 1_000, partial(self._join_again, self.groups[number]))

    def _join_again(self, plan: GroupPlan) -> None:
        if self.is_up and not self.wanted:
            self.join(plan)

    def on_handed(self, number: int, message: HandedOut) -> None:
        """Begin with a message."""
        plan = self.groups[number]
        job = Job(self.name, number, plan, message, self.clock.now_us, member=self.member(number))
        self._on_job(job)
        self.read_late += (job.member, message.pubend, message.tick, message.attempt) in self.extended_us
        forgotten, late, refused, extended = _CLUMSY if self.is_clumsy else _USUAL
        work_ms, chance = plan.shared.work_ms, self._habits.random()
        takes_ms = self._habits.choice((*_WORK_MS, work_ms // 2))
        if self.is_careful:
            self._after(min(takes_ms, _CAREFUL_MS_MAX), number, job, Verdict.DONE)
        elif chance < forgotten:
            return
        elif chance < late:
            self._after(work_ms + self._habits.choice((1, 500, 6_000)), number, job, Verdict.DONE)
        elif chance < refused:
            self._after(takes_ms, number, job, Verdict.REFUSED)
        elif chance < extended:
            self._after(work_ms * 6 // 10, number, job, Verdict.EXTENDED)
            self._after(work_ms * 12 // 10, number, job, Verdict.DONE)
        else:
            self._after(takes_ms, number, job, Verdict.DONE)

    def _after(self, ms: int, number: int, job: Job, verdict: Verdict) -> None:
        self.clock.after(ms * 1_000, partial(self._say, number, job, verdict))

    def _say(self, number: int, job: Job, verdict: Verdict) -> None:
        if not self.is_member(number) or self.is_away:
            # A machine that sleeps wakes up with its clients; one that is dead does nothing more.
            if self.is_away and self.is_member(number):
                self.clock.after(1_000_000, partial(self._say, number, job, verdict))
            return
        if self.clock.now_us < self._stalled_us:
            self.clock.at(self._stalled_us, partial(self._say, number, job, verdict))
            return
        delay_ms = self._habits.choice(_DELAYS_MS) if verdict is Verdict.REFUSED else 0
        said = self.judge(number, job.message, verdict, delay_ms)
        job.said.append((self.clock.now_us, said))
        self.note(f"says {verdict.name} of {job.message.pubend} {job.message.tick}, attempt {job.message.attempt}")
