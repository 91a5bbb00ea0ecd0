"""Simulated workers: applications that are members of groups, do what they are handed, and sometimes fail to.

A worker takes every message at once and works on it for a while. Then it acknowledges, refuses or extends it, is late,
or forgets about it. What it was handed and what it said of each message is kept for the judge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final

from penstock.broker.host.work import identity_of
from penstock.protocol.frames import Frame, Join
from penstock.protocol.work_frames import Verdict
from penstock.session.received import HandedOut
from penstock.session.work import Said, Shared
from penstock.sim.client import SimClient

__all__ = ["GroupPlan", "Job", "Worker"]

_WORK_MS: Final = (0, 1, 20, 200, 1_500)
"""How long work takes, if it does not depend on the time that there is."""
_CAREFUL_MS_MAX: Final = 20
"""How long work takes at most in the end."""
_DELAYS_MS: Final = (0, 0, 300, 3_000)
_FORGOTTEN, _LATE, _REFUSED, _EXTENDED = 0.03, 0.06, 0.16, 0.24
"""Up to which chance a message is forgotten, acknowledged late, refused, or extended once and then acknowledged."""


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
        self.is_careful = False
        """Whether it acknowledges everything soon from now on."""
        self._stalled_us = 0
        super().__init__(*arguments, **options)
        self._habits = Random(f"{self.name}/{self._around.seed}/habits")

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
        super().die(loud=loud)

    def stall(self, ms: int) -> None:
        """Do nothing for a while, though the connection stands."""
        self._stalled_us = self.clock.now_us + ms * 1_000

    def be_careful(self) -> None:
        """Acknowledge everything soon, from now on."""
        self.is_careful, self._stalled_us = True, 0

    def is_member(self, number: int) -> bool:
        """Whether it has neither left nor died since it joined."""
        return number in self.groups and number not in self.left_us

    def _identity(self) -> str:
        # A new process is another member.
        return f"{self.name}/{self.deaths}"

    def _on_said(self, line: int, frame: Frame) -> None:
        if isinstance(frame, Join):
            # Numbers on the wire start over in every life.
            numbers = {inbox.number: number for number, inbox in self._inboxes.items()}
            self.identities[identity_of(self.name, frame.member, frame.number)] = numbers[frame.number]
        super()._on_said(line, frame)

    # --- working

    def on_handed(self, number: int, message: HandedOut) -> None:
        """Begin with a message."""
        plan = self.groups[number]
        job = Job(self.name, number, plan, message, self.clock.now_us)
        self._on_job(job)
        work_ms, chance = plan.shared.work_ms, self._habits.random()
        takes_ms = self._habits.choice((*_WORK_MS, work_ms // 2))
        if self.is_careful:
            self._after(min(takes_ms, _CAREFUL_MS_MAX), number, job, Verdict.DONE)
        elif chance < _FORGOTTEN:
            return
        elif chance < _LATE:
            self._after(work_ms + self._habits.choice((1, 500, 6_000)), number, job, Verdict.DONE)
        elif chance < _REFUSED:
            self._after(takes_ms, number, job, Verdict.REFUSED)
        elif chance < _EXTENDED:
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
