"""Publishes in the live fuzz with the blocking client, and interrupts some of its calls with an alarm.

The alarm raises an exception, as Ctrl-C does, but only while the call waits for the client's thread. Elsewhere it would
often hit the locks of Python's own futures, which do not survive that (see "Note on Signal Handlers and Exceptions" in
the documentation of ``signal``).
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from random import Random
from types import FrameType
from typing import Final

from bench.live_fuzz.control import Control
from bench.live_fuzz.diary import PATIENT, Diary, PublisherSpec
from bench.live_fuzz.journal import Journal
from bench.live_fuzz.quotes import payload_of
from penstock.client.sync import SyncClient, connect_sync
from penstock.model.message import Message
from penstock.session.errors import ClientError

__all__ = ["SyncPublisher"]

_INTERRUPT_S: Final = (0.000_05, 0.000_3, 0.002, 0.05, 0.3)
_AGAIN_S: Final = 0.000_1
_MANY_MAX: Final = 20


class _Interrupted(Exception):  # noqa: N818 - not an error: what Ctrl-C would be in a program at a terminal
    """The alarm went off."""


class SyncPublisher:
    """Publishes with the blocking client until it is told to finish."""

    def __init__(self, spec: PublisherSpec, journal: Journal, control: Control) -> None:
        self._spec, self._journal, self._control = spec, journal, control
        self._rng = Random(f"{spec.seed}/{spec.plan.name}")
        self._is_armed = False
        signal.signal(signal.SIGALRM, self._on_alarm)

    def run(self) -> None:
        """Publish with one client, or with another one if no broker was reachable."""
        plan, number = self._spec.plan, 0
        while not self._control.is_over:
            client = connect_sync(self._spec.url, name=plan.name, settings=PATIENT)
            diary = Diary(self._journal, self._spec.seed, f"{plan.name}.{number}")
            number += 1
            try:
                client.open()
            except ClientError:
                time.sleep(0.2)
                continue
            self._publish(client, diary)
            self._close(client, diary)

    def _publish(self, client: SyncClient, diary: Diary) -> None:
        while not self._control.is_over:
            choice = self._rng.random()
            if choice < 0.1:
                self._flush(client, diary)
            else:
                self._publish_some(client, diary, 1 if choice < 0.95 else self._rng.randint(2, _MANY_MAX))
            time.sleep(self._rng.expovariate(self._spec.plan.rate))

    def _publish_some(self, client: SyncClient, diary: Diary, count: int) -> None:
        pubend = self._rng.choice(self._spec.plan.pubends) if self._spec.plan.pubends else ""
        quotes = [diary.issue(pubend) for _ in range(count)]
        messages = [Message(quote.attributes(), payload_of(quote.publisher, quote.n)) for quote in quotes]

        def publish() -> None:
            if count == 1:
                client.publish(messages[0].attributes, messages[0].payload, pubend=pubend)
            else:
                client.publish_many(messages, pubend=pubend)

        if self._maybe_interrupted("publish", publish, diary):
            diary.took(quotes[0], quotes[-1])
        else:
            diary.doubt(quotes[0], quotes[-1], "interrupted")

    def _flush(self, client: SyncClient, diary: Diary) -> None:
        # It has one broker, with guaranteed pubends: nothing can be lost or refused, so any error is a fault.
        if self._maybe_interrupted("flush", client.flush, diary):
            diary.acked()

    def _close(self, client: SyncClient, diary: Diary) -> None:
        client.flush()
        diary.acked()
        client.close()

    def _maybe_interrupted(self, what: str, call: Callable[[], None], diary: Diary) -> bool:
        """Make a call, during which an alarm may go off; return whether it completed."""
        if not self._spec.plan.cancels or self._control.is_over or self._rng.random() > 0.15:
            call()
            return True
        try:
            self._is_armed = True
            signal.setitimer(signal.ITIMER_REAL, self._rng.choice(_INTERRUPT_S))
            call()
            self._is_armed = False
        except _Interrupted:
            diary.cancelled(what)
            return False
        finally:
            self._is_armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
        return True

    def _on_alarm(self, _: int, frame: FrameType | None) -> None:
        if not self._is_armed:
            return
        if frame is None or not _is_waiting(frame):
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
            return
        self._is_armed = False
        raise _Interrupted


def _is_waiting(frame: FrameType) -> bool:
    """Whether the main thread waits in a condition whose lock it has released."""
    return frame.f_code is threading.Condition.wait.__code__ and "saved_state" in frame.f_locals
