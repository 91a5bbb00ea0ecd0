"""A member of a group with a wandering token: its rules, the handshake, its view of the others, and its clock watch.

This is what brokers and users' programs run ([Token] sections 3 and 4). Messages come in and go out as bytes, and any
may be lost. An operation begins with an ``Enabled`` and ends when its caller reports ``done``. Beyond the paper: an
operation may end before Δop, and one that takes longer keeps the token until its end, but not for ever. If nobody
takes a token, its holder visits it again, so a member that is alone operates too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from msgspec.structs import replace

from penstock.model.ports import Rng
from penstock.protocol.status import TokenStatus
from penstock.token.clocks import ClockWatch
from penstock.token.handshake import Handed, Handshake
from penstock.token.members import View
from penstock.token.messages import Accept, Commit, Offer, decode_message, encode_message
from penstock.token.settings import Constants, Plan
from penstock.token.tokens import Fence, Token
from penstock.token.walker import Visit, Walker

__all__ = ["Enabled", "Member", "Noted", "Output", "Send"]

_OVERRUN_SHARE: Final = 0.5
"""An operation may keep the token for this share of Δmax: soon after, others would suspect that it is lost."""
_START_SHARE: Final = 0.25
"""The earliest time at which a freshly started member makes a token, as a share of Δmin."""
_WAITING_MAX: Final = 16
"""Most tokens that may wait behind the one that is held; further offers are not accepted."""


@dataclass(slots=True, frozen=True)
class Send:
    """Send these bytes to a member, best effort."""

    to: str
    payload: bytes


@dataclass(slots=True, frozen=True)
class Enabled:
    """Operate now, until this time, and call ``done`` at the end."""

    fence: Fence
    until_ms: int


@dataclass(slots=True, frozen=True)
class Noted:
    """An event that an operator may want to know about."""

    event: str
    fields: tuple[tuple[str, str | int], ...] = ()


Output: TypeAlias = Send | Enabled | Noted


class Member:
    """One member; it keeps its own deadlines and returns what to do as values."""

    def __init__(
        self, name: str, plan: Plan, *, life: int, rng: Rng, now_ms: int, retry_ms: int = 0, factor: float | None = None
    ) -> None:
        self.name, self.plan = name, plan
        self.view = View(name, rng, factor=factor)
        constants = plan.constants(1)
        self._walker = Walker(f"{name}.{life}", constants, now_ms=now_ms)
        # A member waits less for the group's first token than for a lost one, and at random, so that not all make one.
        self._walker.due_ms = now_ms + int(constants.min_ms * (_START_SHARE + (1 - _START_SHARE) * rng.random()))
        self._handshake = Handshake(life, retry_ms=retry_ms or max(constants.skip_ms // 2, 1))
        self._clocks = ClockWatch(constants.max_ms)
        self._operating = False
        self._is_overloaded = False
        self.counts = dict.fromkeys(
            ("operations", "skips", "discards", "regenerations", "handovers", "unanswered", "overlaps", "overruns"), 0
        )
        """Event counts since the start; overlaps are tokens seen beside another one."""

    # --- state

    @property
    def constants(self) -> Constants:
        """The time constants for the present number of members."""
        return self._walker.constants

    @property
    def is_operating(self) -> bool:
        """Whether an operation is under way."""
        return self._operating

    @property
    def holds(self) -> bool:
        """Whether a token is here: held, waiting or on offer."""
        return self._walker.held is not None or bool(self._handshake.offered)

    @property
    def k_load(self) -> float:
        """Δop · N / Δmin: above 1 the group is overloaded."""
        return self.constants.k_load(self.view.size)

    def status(self) -> TokenStatus:
        """Figures for the operator."""
        constants, walker = self.constants, self._walker
        status = TokenStatus(
            variant=constants.variant,
            members=self.view.size,
            op_ms=constants.op_ms,
            skip_ms=constants.skip_ms,
            min_ms=constants.min_ms,
            max_ms=constants.max_ms,
            gen_ms=int(walker.gen_ms),
            k_load=round(self.k_load, 3),
            overloaded=self.k_load > 1.0,
            holding=self.holds,
            operating=self._operating,
            operated_ms=walker.executed_ms or 0,
            fence="" if walker.owner is None else str(walker.owner.fence),
            clock_faults=self._clocks.faults,
        )
        return replace(status, **self.counts)

    def check_invariants(self) -> None:
        """Fails if the parts contradict each other."""
        self._walker.check_invariants()
        assert not self._operating or self._walker.held is not None

    # --- events

    def set_members(self, members: Iterable[str], *, now_ms: int) -> list[Output]:
        """Sets the members; the constants follow their number."""
        if not self.view.set(members):
            return []
        return self._adapt(now_ms)

    def set_plan(self, plan: Plan, *, now_ms: int) -> list[Output]:
        """Changes what is asked of the group from now on."""
        self.plan = plan
        return self._adapt(now_ms)

    def on_message(self, sender: str, payload: bytes, *, now_ms: int) -> list[Output]:
        """Handles another member's message; raises ``TokenMessageError`` if it is malformed."""
        message = decode_message(payload)
        if isinstance(message, Offer):
            return self._on_offer(sender, message, now_ms)
        if isinstance(message, Accept):
            return self._on_accept(sender, message)
        return self._on_commit(sender, message, now_ms)

    def done(self, fence: Fence, *, now_ms: int) -> list[Output]:
        """Ends the operation with this fencing number: the token moves on, but not before Δskip."""
        walker = self._walker
        if not self._operating or walker.owner is None or walker.owner.fence != fence:
            return []
        self._operating = False
        begun_ms = walker.executed_ms
        assert begun_ms is not None
        walker.until_ms = max(begun_ms + self.constants.skip_ms, now_ms)
        return self.on_deadline(now_ms=now_ms)

    def next_deadline(self) -> int | None:
        """When ``on_deadline`` has to be called next."""
        walker = self._walker
        own_ms = walker.until_ms if walker.held is not None else walker.due_ms
        handshake_ms = self._handshake.next_deadline()
        return own_ms if handshake_ms is None else min(own_ms, handshake_ms)

    def on_deadline(self, *, now_ms: int) -> list[Output]:
        """Handles what is due: ends a hold, repeats messages, makes a token."""
        said, kept = self._handshake.on_deadline(now_ms=now_ms)
        outputs = _sent(said)
        for peer, token in kept:
            self.counts["unanswered"] += 1
            outputs.append(Noted("token-unanswered", (("member", peer),)))
            outputs += self._on_arrival(token, now_ms)
        walker = self._walker
        if walker.held is not None:
            if now_ms >= walker.until_ms:
                outputs += self._on_hold_over(now_ms)
        elif now_ms >= walker.due_ms:
            outputs += self._on_timeout(now_ms)
        return outputs

    # --- messages

    def _on_offer(self, sender: str, offer: Offer, now_ms: int) -> list[Output]:
        outputs: list[Output] = []
        fault = self._clocks.on_time(sender, offer.sent_ms, now_ms=now_ms)
        if fault is not None:
            whose = "own" if fault.is_own else sender
            outputs.append(Noted("clock-fault", (("member", sender), ("error_ms", fault.error_ms), ("clock", whose))))
        if self._walker.waiting >= _WAITING_MAX:
            return outputs
        answer = self._handshake.on_offer(sender, offer, now_ms=now_ms)
        return outputs + _sent([answer] if answer is not None else [])

    def _on_accept(self, sender: str, accept: Accept) -> list[Output]:
        answer = self._handshake.on_accept(sender, accept)
        if answer is None:
            return []
        commit, token = answer
        self.counts["handovers"] += token is not None
        return _sent([commit])

    def _on_commit(self, sender: str, commit: Commit, now_ms: int) -> list[Output]:
        token = self._handshake.on_commit(sender, commit)
        return [] if token is None else self._on_arrival(token, now_ms)

    # --- tokens

    def _on_arrival(self, token: Token, now_ms: int) -> list[Output]:
        visit = self._walker.arrive(token, now_ms=now_ms)
        if visit is None:
            self.counts["overlaps"] += 1
            return []
        return self._on_visit(visit)

    def _on_visit(self, visit: Visit) -> list[Output]:
        walker = self._walker
        if visit is Visit.DISCARD:
            self.counts["discards"] += 1
            self.counts["overlaps"] += 1
            return [Noted("token-discarded")]
        if visit is Visit.SKIP:
            self.counts["skips"] += 1
            return []
        assert walker.held is not None
        self.counts["operations"] += 1
        self._operating = True
        return [Enabled(walker.held.fence, walker.until_ms)]

    def _on_hold_over(self, now_ms: int) -> list[Output]:
        walker = self._walker
        if self._operating:
            return self._on_overrun(now_ms)
        token = walker.release(now_ms=now_ms)
        outputs: list[Output] = []
        while walker.waiting and walker.held is None:
            visit = walker.next_waiting(now_ms=now_ms)
            assert visit is not None
            outputs += self._on_visit(visit)
        return outputs + self._pass_on(token, now_ms)

    def _on_overrun(self, now_ms: int) -> list[Output]:
        """Δop is over but the operation is not: it may keep the token for a while."""
        walker, begun_ms = self._walker, self._walker.executed_ms
        assert begun_ms is not None
        last_ms = begun_ms + max(int(_OVERRUN_SHARE * self.constants.max_ms), self.constants.op_ms)
        if now_ms < last_ms:
            walker.until_ms = last_ms
            self.counts["overruns"] += 1
            return [Noted("operation-late", (("budget_ms", self.constants.op_ms),))]
        self._operating = False
        return [Noted("operation-outlasts-token", (("after_ms", now_ms - begun_ms),)), *self._on_hold_over(now_ms)]

    def _on_timeout(self, now_ms: int) -> list[Output]:
        walker = self._walker
        if self._handshake.offered:
            # A token is here, only nobody takes it at the moment.
            walker.due_ms = now_ms + int(walker.gen_ms)
            return []
        after_ms = int(walker.gen_ms)
        visit = walker.generate(now_ms=now_ms)
        self.counts["regenerations"] += 1
        return [Noted("token-generated", (("after_ms", after_ms),)), *self._on_visit(visit)]

    def _pass_on(self, token: Token, now_ms: int) -> list[Output]:
        hop = self.view.next_hop()
        if hop is None:
            return self._on_arrival(token, now_ms)
        return _sent([self._handshake.offer(token, hop, now_ms=now_ms)])

    def _adapt(self, now_ms: int) -> list[Output]:
        constants = self.plan.constants(self.view.size)
        self._walker.adapt(constants, now_ms=now_ms)
        self._clocks.adapt(constants.max_ms)
        was, self._is_overloaded = self._is_overloaded, self.k_load > 1.0
        if was == self._is_overloaded:
            return []
        event = "token-overloaded" if self._is_overloaded else "token-not-overloaded"
        return [Noted(event, (("members", self.view.size), ("load_percent", round(100 * self.k_load))))]


def _sent(handed: Iterable[Handed]) -> list[Output]:
    return [Send(to, encode_message(message)) for to, message in handed]
