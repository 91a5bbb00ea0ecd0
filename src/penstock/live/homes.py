"""Runs the homes of pubends for which this broker is a candidate (decision 24).

For each home a ``Candidate`` decides; a thread puts its questions to the database, since the driver blocks; and the
home itself is a node like any other, in this process, whose one link is to the node that it runs beside. The clock of
leases also counts the time in which the machine sleeps.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.broker.candidate import (
    Action,
    Answer,
    Candidate,
    Release,
    Renew,
    Start,
    Stop,
    Take,
)
from penstock.live.errors import ConfigError, NodeFailedError, SupersededError
from penstock.live.overlay import Home, Overlay
from penstock.live.tenure import Tenure
from penstock.model.errors import MisuseError, PenstockError
from penstock.protocol.status import BrokerStatus, CandidacyStatus
from penstock.system.logs import log, log_bug

if TYPE_CHECKING:
    from penstock.live.node import BrokerNode
    from penstock.live.postgres.holdings import Holdings

__all__ = ["LEAVE_S_MAX", "Homes", "lease_clock_ms"]

LEAVE_S_MAX: Final = 10.0
"""How long a broker that stops waits until its homes have ended and are released."""
_LOOPBACKS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - nothing is bound here
_WAIT_S_MAX: Final = 1.0
"""How long nothing is looked at, whatever the candidate says: news from the database wakes it earlier."""


def lease_clock_ms() -> int:
    """Milliseconds on a clock that never goes back and also counts while the machine sleeps."""
    # Only Linux has it; elsewhere the monotonic clock counts the sleep, or nothing does.
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock) // 1_000_000


class MakeNode(Protocol):
    """Makes the node of a home, which does nothing any more once its tenure is over."""

    def __call__(self, overlay: Overlay, name: str, *, tenure: Tenure) -> BrokerNode:
        """Make it; it is not started."""


class Homes:
    """All homes for which one broker is a candidate."""

    def __init__(self, overlay: Overlay, name: str, *, make: MakeNode) -> None:
        self._seats = {home.pubend: _Seat(overlay, home, name, make) for home in overlay.candidate_for(name)}

    def start(self, address: tuple[str, int]) -> None:
        """Begin to ask who holds each home; those that run here link to this broker, which listens at the address."""
        for seat in self._seats.values():
            seat.start(address)

    async def stop(self) -> None:
        """End the homes that run here, in order, and leave them to the other candidates."""
        await asyncio.gather(*(seat.stop() for seat in self._seats.values()))

    def apply(self, overlay: Overlay) -> None:
        """Pass a changed overlay on; it has the same homes at this broker as before."""
        for seat in self._seats.values():
            seat.apply(overlay)

    async def ship(self) -> dict[str, dict[str, Any]]:
        """Have the homes that run here ship to the lake, one after the other; figures by home."""
        return {name: await node.ship() for name, node in self.nodes().items()}

    async def move(self, pubend: str, to: str) -> None:
        """Ask for a pubend to move to a candidate; raises ``PenstockError`` if it cannot, or cannot now."""
        if pubend not in self._seats:
            known = ", ".join(self._seats) or "none"
            raise ConfigError(f"this broker is no candidate for a pubend {pubend!r}; it is for: {known}")
        await self._seats[pubend].move(to)

    def candidacies(self) -> list[CandidacyStatus]:
        """How it is with each home."""
        return [seat.status() for seat in self._seats.values()]

    def brokers(self) -> dict[str, BrokerStatus]:
        """The status of the homes that run here, as brokers."""
        return {name: node.broker.status() for name, node in self.nodes().items()}

    def stores(self) -> dict[str, dict[str, Any]]:
        """The figures of the stores of the homes that run here, by home."""
        return {name: node.status().store for name, node in self.nodes().items()}

    def nodes(self) -> dict[str, BrokerNode]:
        """The homes that run here, by name."""
        running = {seat.home.name: seat.node for seat in self._seats.values()}
        return {name: node for name, node in running.items() if node is not None and node.is_serving}


class _Seat:
    """This broker's part in one home."""

    def __init__(self, overlay: Overlay, home: Home, name: str, make: MakeNode) -> None:
        self.home = home
        self.node: BrokerNode | None = None
        """The home, while it runs here."""
        self._starting: BrokerNode | None = None
        """The home, while it begins here."""
        self._overlay = overlay.running(home, name)
        self._overlay_name, self._name = overlay.name, name
        self._address: tuple[str, int] | None = None
        """Where the broker beside it listens."""
        self._make = make
        self._candidate = Candidate(name, home.lease)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"holder of {home.name}")
        self._holdings: Holdings | None = None
        self._problem = ""
        """Why the database could not be asked the last time."""
        self._failure = ""
        """What was wrong with the home when it ran here the last time, or was to run."""
        self._look: asyncio.Event = asyncio.Event()
        """Set when there may be something to do before the next deadline."""
        self._question: asyncio.Task[None] | None = None
        self._life: asyncio.Task[None] | None = None
        self._end: Stop | None = None
        self._ending: asyncio.Event = asyncio.Event()
        self._run: asyncio.Task[None] | None = None
        self._watched = -1

    def start(self, address: tuple[str, int]) -> None:
        self._address = address
        self._overlay = self._reaching(self._overlay)
        self._run = asyncio.create_task(self._serve(), name=f"candidate for {self.home.name}")

    def apply(self, overlay: Overlay) -> None:
        self.home = overlay.homes[self.home.name]
        self._overlay = self._reaching(overlay.running(self.home, self._name))
        if self.node is not None:
            self._tell(self.node)

    def _tell(self, node: BrokerNode) -> None:
        """Have the home take over what has changed in the overlay."""
        try:
            node.apply(self._overlay)
            self._failure = ""
        except PenstockError as error:
            self._on_failure(f"the home goes on with an older overlay file: {error}")

    def _reaching(self, overlay: Overlay) -> Overlay:
        """The overlay with the address at which the home finds the broker that it runs beside."""
        if self._address is None:
            return overlay
        host, port = self._address
        # The broker may listen at all addresses, or at a port that the system chose.
        reached = replace(overlay.brokers[self._name], host=_LOOPBACKS.get(host, host), port=port)
        return replace(overlay, brokers={**overlay.brokers, self._name: reached})

    async def stop(self) -> None:
        if self._run is None:
            return
        self._carry_out(self._candidate.leave(now_ms=lease_clock_ms()))
        self._look.set()
        try:
            async with asyncio.timeout(LEAVE_S_MAX):
                await asyncio.shield(self._run)
        except TimeoutError:
            self._note("home-slow", reason="it was not released in time: its lease has to run out")
            self._run.cancel()
        if self._life is not None:
            self._cut_off()
            await asyncio.gather(self._life, return_exceptions=True)
        self._unwatch()
        holdings = self._holdings
        if holdings is not None:
            with suppress(RuntimeError):
                self._thread.submit(holdings.close)
        self._thread.shutdown(wait=False)

    async def move(self, to: str) -> None:
        if to not in self.home.candidates:
            raise ConfigError(f"{to!r} is no candidate for {self.home.pubend}: {', '.join(self.home.candidates)}")
        # The connection may be closed and made anew meanwhile; the answer to the next question watches it again.
        self._unwatch()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, lambda: self._asked().want(to, lease_ms=self.home.lease.lease_ms))
        # The database's news come to our own connection with the answer, where nobody looks for them.
        self._candidate.hurry(now_ms=lease_clock_ms())
        self._look.set()

    def status(self) -> CandidacyStatus:
        candidate = self._candidate
        running = self.node.status() if self.node is not None and self.node.is_serving else None
        return CandidacyStatus(
            pubend=self.home.pubend,
            candidates=list(self.home.candidates),
            holder=candidate.holder,
            epoch=0 if running is None else candidate.epoch,
            wanted=candidate.wanted,
            replicas=-1 if running is None else running.store.get("replicas", -1),
            held_back="" if running is None else running.broker.guaranteed.held_back,
            problem=self._shown_problem(),
        )

    def _shown_problem(self) -> str:
        waits_for = self._starting.opening_reason if self._starting is not None else ""
        return waits_for or self._problem or self._failure

    # The candidate.

    async def _serve(self) -> None:
        candidate = self._candidate
        while not candidate.is_over:
            self._carry_out(candidate.on_deadline(now_ms=lease_clock_ms()))
            deadline_ms = candidate.next_deadline()
            wait_s = _WAIT_S_MAX
            if deadline_ms is not None:
                wait_s = min(wait_s, max(0, deadline_ms - lease_clock_ms()) / 1_000)
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._look.wait()
            self._look.clear()

    def _carry_out(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Take() | Renew() | Release():
                    self._unwatch()
                    self._question = asyncio.create_task(self._ask(action), name=f"question of {self.home.name}")
                case Start(epoch):
                    self._begin(epoch)
                case Stop():
                    self._finish(action)

    async def _ask(self, question: Take | Renew | Release) -> None:
        answer: Answer | None = None
        asked_ms = 0
        try:
            loop = asyncio.get_running_loop()
            asked_ms, answer = await loop.run_in_executor(self._thread, self._answer, question)
            self._problem = ""
        except PenstockError as error:
            self._on_problem(str(error))
        except Exception as error:  # noqa: BLE001 - a question that nobody answers would be this candidate's last one
            if self._on_problem(repr(error)):
                log_bug("home-failed", (("broker", self._name), ("home", self.home.name)), error)
        self._carry_out(self._candidate.on_answer(answer, now_ms=lease_clock_ms(), asked_ms=asked_ms))
        self._watch()
        self._look.set()

    def _answer(self, question: Take | Renew | Release) -> tuple[int, Answer]:
        """Put a question to the database; returns when that was, and the answer; in the thread."""
        holdings = self._asked()
        # Connecting may take long, and the lease begins to run only with the question.
        holdings.connect()
        asked_ms = lease_clock_ms()
        return asked_ms, self._answered(holdings, question)

    def _answered(self, holdings: Holdings, question: Take | Renew | Release) -> Answer:
        lease = self.home.lease
        match question:
            case Take():
                place = self.home.candidates.index(self._name)
                return holdings.take(self._name, lease_ms=lease.lease_ms, place=place, stagger_ms=lease.stagger_ms)
            case Renew(epoch):
                return holdings.renew(epoch, lease_ms=lease.lease_ms)
            case Release(epoch, to):
                holdings.release(epoch, to=to, lease_ms=lease.lease_ms)
                return holdings.look()

    def _asked(self) -> Holdings:
        """The connection to the database, made when it is first needed; in the thread."""
        if self._holdings is None:
            from penstock.live.postgres.holdings import Holdings

            database = self.home.database
            self._holdings = Holdings(
                database.url, overlay=self._overlay_name, home=self.home.name, answer_ms=database.answer_ms
            )
        return self._holdings

    def _watch(self) -> None:
        """Look at once when the database has news of this home: somebody wants it to move, or has released it."""
        number = -1 if self._holdings is None else self._holdings.fileno()
        if number >= 0 and self._question is not None:
            self._watched = number
            asyncio.get_running_loop().add_reader(number, self._on_news)

    def _unwatch(self) -> None:
        if self._watched >= 0:
            asyncio.get_running_loop().remove_reader(self._watched)
            self._watched = -1

    def _on_news(self) -> None:
        self._unwatch()
        self._candidate.hurry(now_ms=lease_clock_ms())
        self._look.set()

    # The home.

    def _begin(self, epoch: int) -> None:
        self._end = None
        self._ending.clear()
        self._life = asyncio.create_task(self._live(epoch), name=f"home {self.home.name}")

    async def _live(self, epoch: int) -> None:
        """Run the home until it is told to end, or fails."""
        problem, was_superseded = "", False
        candidate = self._candidate
        assert self._holdings is not None, "the home was taken through it"
        tenure = Tenure(epoch, self._holdings.life, lambda: lease_clock_ms() < candidate.lease_until_ms)
        self._note("home-begins", epoch=epoch)
        try:
            await self._run_node(self._make(self._overlay, self.home.name, tenure=tenure))
        except SupersededError as error:
            problem = f"{error}; do all candidates name the same database?"
            was_superseded = True
        except (MisuseError, NodeFailedError) as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001 - a bug in a home must not keep the others from taking it
            problem = repr(error)
            log_bug("home-failed", (("broker", self._name), ("home", self.home.name)), error)
        self.node = None
        self._life = None
        if problem:
            self._on_failure(problem)
        reason = problem or ("" if self._end is None else self._end.reason)
        self._note("home-ended", epoch=epoch, reason=reason)
        candidate.on_ended(now_ms=lease_clock_ms(), has_failed=bool(problem), was_superseded=was_superseded)
        self._look.set()

    async def _run_node(self, node: BrokerNode) -> None:
        self._starting = node
        starting = asyncio.create_task(node.start(), name=f"start {self.home.name}")
        ending = asyncio.create_task(self._ending.wait())
        failing = asyncio.create_task(node.has_failed.wait())
        try:
            await asyncio.wait((starting, ending), return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                starting.cancel()
            # Raises if it could not start.
            with suppress(asyncio.CancelledError):
                await starting
                self.node, self._starting = node, None
                # The overlay may have changed while the home was starting.
                self._tell(node)
                await asyncio.wait((ending, failing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._starting = None
            ending.cancel()
            failing.cancel()
            await asyncio.gather(ending, failing, return_exceptions=True)
        if self.node is None:
            return
        if self._end is not None and self._end.is_orderly:
            await node.stop()
        else:
            await node.cut_off()
        if node.failure is not None:
            raise node.failure

    def _finish(self, stop: Stop) -> None:
        self._end = stop
        self._ending.set()
        if not stop.is_orderly and self.node is not None:
            # At once, before anything else happens in this process.
            self.node.fall_silent()

    def _cut_off(self) -> None:
        self._finish(Stop(is_orderly=False, reason="the broker has stopped"))

    def _on_problem(self, problem: str) -> bool:
        """Note a problem with the database, once; returns whether it is a new one."""
        if problem == self._problem:
            return False
        self._problem = problem
        self._note("home-problem", reason=problem)
        return True

    def _on_failure(self, failure: str) -> None:
        """Note a problem with the home, once."""
        if failure != self._failure:
            self._failure = failure
            self._note("home-problem", reason=failure)

    def _note(self, event: str, **fields: str | int) -> None:
        log(event, (("broker", self._name), ("home", self.home.name), *fields.items()))
