"""Brings messages that groups have given up to the pubend for dead letters, each once.

A group is a publisher there: it has an identity, and numbers its dead letters. They are sent in their order, some at a
time, and sent again until they are durable; only then are the messages done in their group. If the pubend is full or
away, they wait; one elsewhere that has said that publishers have to wait is asked now and then whether they still do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, TypeAlias

from penstock.broker.due import Due
from penstock.broker.pubend.log import PubendLog
from penstock.model.body import decode_message
from penstock.model.dead_letter import encode_dead_letter
from penstock.model.values import AttributeValue
from penstock.protocol.frames import Carried, Carry
from penstock.work.group import Group
from penstock.work.ledger import Task

__all__ = ["DeadLetters", "dead_letter"]

_AGAIN_MS: Final = 2_000
"""How long to wait for an answer, or for room."""
_PAUSE_MS_MAX: Final = 8_000
"""A full pubend is asked less and less often whether it has room; how long to wait in between at most."""
_AHEAD_MS_MAX: Final = 10 * 366 * 86_400_000
"""Rounds begin with the time: one so far ahead of it is nobody's earlier clock."""
_AT_ONCE: Final = 16
_BYTES_AT_ONCE: Final = 256 * 1024
_ALL: Final = 1 << 62
_Key: TypeAlias = tuple[str, str]
"""Pubend and group."""


@dataclass(slots=True)
class _Sent:
    """Dead letters of one group that are on their way."""

    pubend: str
    """Where dead letters go."""
    publisher: bytes
    last: int
    """The number of the last of them."""
    due_ms: int
    round: int = 0
    commit: int = 0
    """The commit that makes them durable, if that pubend is one of this broker's own."""
    is_question: bool = False
    """Whether nothing was sent but a question: do publishers there still have to wait?"""


@dataclass(slots=True)
class _Pause:
    """The pubend for dead letters has said that its publishers have to wait."""

    pubend: str
    due_ms: int
    """When to ask whether they still have to."""
    wait_ms: int


class DeadLetters:
    """The dead letters of the groups at one broker."""

    def __init__(
        self,
        name: str,
        logs: Mapping[str, PubendLog],
        *,
        publish: Callable[[str, bytes, int, list[bytes], int], int | None],
        send: Callable[[Carry], None],
    ) -> None:
        """Takes functions to publish to a pubend of this broker, and to send to one elsewhere.

        The first returns the commit that makes the messages durable, 0 if they are, None if there is no room.
        """
        self._name, self._logs = name, logs
        self._publish, self._send = publish, send
        self._buried: list[tuple[_Key, int]] = []
        self._sent: dict[_Key, _Sent] = {}
        self._round = 0
        self._pause: _Pause | None = None
        self.due = Due(self.next_deadline)

    def look(self, key: _Key, group: Group, pubend: str, *, numbered: int = _ALL, now_ms: int) -> None:
        """Sends dead letters of a group, up to a number, to a pubend, if it has some and none are on their way.

        The numbers must be durable: after a crash others would get them, and be taken for repetitions.
        """
        sent = self._sent.get(key)
        if not group.dying or not pubend:
            self._sent.pop(key, None)
            return
        if sent is not None and now_ms < sent.due_ms:
            return
        tasks = _next(group, numbered)
        if not tasks:
            # They have yet to be read from the log, or to become durable.
            self._sent.pop(key, None)
            return
        publisher = blake2b(f"{key[0]}/{group.ledger.made}/{key[1]}".encode(), digest_size=16).digest()
        pause = self._pause if self._pause is not None and self._pause.pubend == pubend else None
        if pause is not None and now_ms < pause.due_ms:
            if sent is None or sent.pubend != pubend:
                sent = self._sent[key] = _Sent(pubend, publisher, 0, pause.due_ms)
            sent.due_ms = pause.due_ms
            self.due.by(sent.due_ms)
            return
        first, last = tasks[0].number, tasks[-1].number
        made = self._sent[key] = _Sent(pubend, publisher, last, now_ms + _AGAIN_MS, is_question=pause is not None)
        bodies: list[bytes] = []
        if pause is not None:
            # The others wait for the answer.
            pause.due_ms = made.due_ms
        else:
            bodies = [dead_letter(key[0], group.terms.name, task) for task in tasks]
        self.due.by(made.due_ms)
        if made.pubend in self._logs:
            commit = self._publish(made.pubend, publisher, first, bodies, now_ms)
            if commit == 0:
                self._arrived(key, made.last)
            else:
                made.commit = commit or 0
            return
        self._round = made.round = max(self._round + 1, now_ms)
        numbers = (made.round, first - 1, first)
        self._send(
            Carry(made.pubend, self._name, publisher, group.terms.name, numbers, bodies, is_first=True, asks=True)
        )

    def on_committed(self, number: int) -> None:
        """Commits up to this number are durable."""
        for key, sent in list(self._sent.items()):
            if 0 < sent.commit <= number:
                self._arrived(key, sent.last)

    def on_carried(self, frame: Carried, *, now_ms: int) -> bool:
        """The pubend for dead letters has answered; returns False if the answer is not for a group."""
        for key, sent in list(self._sent.items()):
            if sent.publisher != frame.publisher:
                continue
            if frame.is_late:
                if sent.round < frame.round < now_ms + _AHEAD_MS_MAX:
                    # This broker's clock was ahead in an earlier life.
                    self._round = max(self._round, frame.round)
                    self._wake(sent, now_ms)
            elif sent.round == frame.round and not frame.is_broken:
                self._hear(sent, frame, now_ms)
                if frame.settled >= sent.last and not sent.is_question:
                    self._arrived(key, sent.last)
            return True
        return False

    def _hear(self, sent: _Sent, frame: Carried, now_ms: int) -> None:
        """Notes whether publishers to the pubend have to wait."""
        if frame.reason and not frame.window_bytes:
            before = self._pause
            wait_ms = min(2 * before.wait_ms, _PAUSE_MS_MAX) if before is not None and sent.is_question else _AGAIN_MS
            self._pause = _Pause(sent.pubend, now_ms + wait_ms, wait_ms)
            self._wake(sent, now_ms + wait_ms)
        elif sent.is_question:
            self._pause = None
            for each in self._sent.values():
                self._wake(each, now_ms)

    def _wake(self, sent: _Sent, due_ms: int) -> None:
        sent.due_ms = due_ms
        self.due.by(due_ms)

    def _arrived(self, key: _Key, last: int) -> None:
        del self._sent[key]
        self._buried.append((key, last))

    def take_arrived(self) -> list[tuple[_Key, int]]:
        """Returns the groups whose dead letters up to a number have become durable where they belong."""
        buried, self._buried = self._buried, []
        return buried

    def forget(self, key: _Key) -> None:
        """The group is gone."""
        self._sent.pop(key, None)

    def next_deadline(self) -> int | None:
        """When to send something again."""
        return min([sent.due_ms for sent in self._sent.values()], default=None)

    def late(self, *, now_ms: int) -> list[_Key]:
        """The groups whose dead letters are to be sent again."""
        return [key for key, sent in self._sent.items() if now_ms >= sent.due_ms]


def _next(group: Group, last: int) -> list[Task]:
    """The next dead letters up to a number, in the order of their numbers, as far as they have been read."""
    tasks: list[Task] = []
    size = 0
    for number in sorted(group.dying):
        task = group.dying[number]
        if number > last:
            break
        if not task.body or len(tasks) >= _AT_ONCE or (tasks and size + len(task.body) > _BYTES_AT_ONCE):
            break
        if tasks and number != tasks[-1].number + 1:
            break
        tasks.append(task)
        size += len(task.body)
    return tasks


def dead_letter(pubend: str, group: str, task: Task) -> bytes:
    """The message that is published in place of one that was given up, under the same identifier."""
    message_id, message = decode_message(task.body)
    why: dict[str, AttributeValue] = {
        "dead_group": group,
        "dead_pubend": pubend,
        "dead_tick": task.tick,
        "dead_attempts": task.attempts,
        "dead_reason": task.history[-1] if task.history else "",
    }
    return encode_dead_letter(message_id, message, why, "; ".join(task.history))
