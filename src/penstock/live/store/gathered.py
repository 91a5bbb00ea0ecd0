"""Gathers the appends of one commit by pubend, and refuses changes that break a rule; for any store.

Appends to the same pubend are stored as one, cut into batches of bounded size, so that reading one is cheap. States are
changed in copies, which the store takes over once the commit is durable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from penstock.broker.durable import Append, Change, ForgetPublishers, MarkLost, Trim
from penstock.live.store.errors import ChangeRefusedError
from penstock.live.store.pubend_state import PubendState
from penstock.model.tick import TICK_MAX, TICK_MIN, Tick, TickRange

__all__ = ["BATCH_BYTES_MAX", "BATCH_MESSAGES_MAX", "Gathered", "Message", "cut"]

BATCH_BYTES_MAX: Final = 256 * 1024
"""Bytes of bodies in one stored batch, unless a single one is larger."""
BATCH_MESSAGES_MAX: Final = 4_096
"""Messages in one stored batch."""

_SEQUENCE_MAX: Final = 2**63 - 1

Message: TypeAlias = tuple[Tick, bytes]


class Gathered:
    """The pubends that one commit concerns."""

    def __init__(self, states: Mapping[str, PubendState]) -> None:
        """``states`` are those of the last durable commit."""
        self._states = states
        self.appended: dict[str, list[Message]] = {}
        self.leased: dict[str, None] = {}
        """The pubends whose leases the commit changes."""
        self.lost: dict[str, list[TickRange]] = {}
        """Ticks to be marked as lost, by pubend."""
        self.touched: dict[str, PubendState] = {}
        """The states of pubends that the commit changes, as they will be."""

    def touch(self, pubend: str) -> PubendState:
        """The state of a pubend, to be changed."""
        if pubend not in self.touched:
            self.touched[pubend] = replace(self._states.get(pubend) or PubendState())
        return self.touched[pubend]

    def state_of(self, pubend: str) -> PubendState:
        """The state of a pubend as the commit has it so far."""
        return self.touched.get(pubend) or self._states.get(pubend) or PubendState()

    def check(self, changes: Sequence[Change]) -> None:
        """Refuse changes that break a rule, before anything is written."""
        for change in changes:
            match change:
                case Append():
                    self._check_append(change)
                case MarkLost(pubend, ticks):
                    self._check_lost(pubend, ticks)
                case Trim(pubend, below_tick, batches_max):
                    _check_tick(pubend, below_tick)
                    if batches_max < 1:
                        raise ChangeRefusedError(f"pubend {pubend!r}: a trim of {batches_max} batches never ends")
                case ForgetPublishers(pubend, below_tick):
                    _check_tick(pubend, below_tick)

    def _check_lost(self, pubend: str, ticks: TickRange) -> None:
        state = self.touch(pubend)
        # Also if nothing is appended: the pubend may be new.
        if self.appended.setdefault(pubend, []):
            raise ChangeRefusedError(f"pubend {pubend!r}: ticks are marked as lost behind messages of the same commit")
        if not state.next_tick <= ticks.first <= ticks.last:
            raise ChangeRefusedError(
                f"pubend {pubend!r}: lost ticks {ticks.first} to {ticks.last} do not lie above {state.next_tick - 1}"
            )
        _check_tick(pubend, ticks.last)
        self.lost.setdefault(pubend, []).append(ticks)
        if state.first_tick is None:
            state.first_tick = ticks.first
        state.last_tick = ticks.last

    def _check_append(self, change: Append) -> None:
        state = self.touch(change.pubend)
        gathered = self.appended.setdefault(change.pubend, [])
        lowest = max(state.next_tick, gathered[-1][0] + 1) if gathered else state.next_tick
        for tick, _ in change.messages:
            if tick < lowest:
                raise ChangeRefusedError(
                    f"pubend {change.pubend!r}: tick {tick} is below {lowest}, the lowest that may follow"
                )
            lowest = tick + 1
        if change.messages:
            _check_tick(change.pubend, change.messages[-1][0])
            gathered += change.messages
        if change.lease is not None:
            _check_tick(change.pubend, change.lease)
            if state.lease is not None and change.lease < state.lease:
                raise ChangeRefusedError(
                    f"pubend {change.pubend!r}: lease {change.lease} is below the earlier {state.lease}"
                )
            state.lease = change.lease
            self.leased[change.pubend] = None
        for sequence in change.sequences.values():
            if not 0 <= sequence <= _SEQUENCE_MAX:
                raise ChangeRefusedError(
                    f"pubend {change.pubend!r}: sequence {sequence} is outside 0 to {_SEQUENCE_MAX}"
                )


def cut(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """Split messages into batches that are cheap to read one by one."""
    batch: list[Message] = []
    room = BATCH_BYTES_MAX
    for message in messages:
        size = len(message[1])
        if batch and (size > room or len(batch) == BATCH_MESSAGES_MAX):
            yield batch
            batch, room = [], BATCH_BYTES_MAX
        batch.append(message)
        room -= size
    if batch:
        yield batch


def _check_tick(pubend: str, tick: Tick) -> None:
    if not TICK_MIN <= tick <= TICK_MAX:
        raise ChangeRefusedError(f"pubend {pubend!r}: tick {tick} is outside {TICK_MIN} to {TICK_MAX}")
