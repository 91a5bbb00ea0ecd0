"""How the life of a broker's guaranteed pubends begins: with what others remember of them, and what is lost.

A pubend begins when everybody in reach has said what they remember (``Inquiry``). If somebody knows better than the
store, the pubend first marks what the store lacks as lost, and begins when that is durable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.broker.commits import Commits
from penstock.broker.pubend.inquiry import Inquiry, Memento
from penstock.broker.pubend.log import PubendLog
from penstock.broker.rooms import Rooms
from penstock.model.tick import Tick, TickRange
from penstock.protocol.frames import LinkState, Remembered

__all__ = ["Beginnings"]


class Beginnings:
    """The pubends of one broker that have not begun yet, and those that had to give something up for lost."""

    def __init__(self, rooms: Rooms, logs: Mapping[str, PubendLog], commits: Commits) -> None:
        self._connections = rooms.connections
        self._logs, self._commits = logs, commits
        self._inquiry = Inquiry(rooms, logs)
        self._marking: dict[str, tuple[int, TickRange]] = {}
        """Pubends that begin when their lost ticks are marked, with the commit that does it, and these ticks."""
        self._has_begun = False
        """Whether pubends have begun of which nobody has been told yet."""
        self._news_of_known = False
        """Whether others are to be told that more is known of former lives."""
        self.lost: Final[dict[str, TickRange]] = {}
        """The ticks that counted as lost when this life began, by pubend."""
        self._counts = {"history_lost": 0, "history_lost_late": 0}

    # --- what others ask

    def waits(self, pubend: str) -> bool:
        """Whether a pubend of this broker has not begun yet: it takes and answers nothing about what is new."""
        log = self._logs.get(pubend)
        return log is not None and not log.is_begun

    def why_waits(self, pubend: str) -> str:
        """Why a pubend has not begun; empty if it has."""
        return f"pubend {pubend} asks other brokers what they remember of it" if self.waits(pubend) else ""

    def why_some_wait(self) -> str:
        """Why some pubend has not begun; empty if all have."""
        return next(filter(None, map(self.why_waits, self._logs)), "")

    @property
    def end_ms(self) -> int | None:
        """When pubends begin at the latest; None if that waits for nobody's answer."""
        return self._inquiry.end_ms

    @property
    def counts(self) -> dict[str, int]:
        """What was lost how often, and what cannot have been."""
        return {"memory_implausible": self._inquiry.implausible, **self._counts}

    # --- stimuli; they return the pubends that begin

    def start(self, *, now_ms: int) -> None:
        """Starts the pubends: at once, or when others have said what they remember of them."""
        if self._inquiry.is_needed:
            self._inquiry.begin(now_ms=now_ms)
            for log in self._logs.values():
                log.wait()
            return
        for log in self._logs.values():
            self._begin(log, None, now_ms)

    def on_remembered(self, frame: Remembered, *, now_ms: int) -> None:
        """Another broker says what it has heard of this broker's pubends in former lives."""
        for pubend, memento in self._inquiry.on_remembered(frame, now_ms=now_ms).items():
            self._on_late(pubend, memento)

    def look(self, *, now_ms: int) -> list[PubendLog]:
        """Lets pubends begin when all brokers in reach have said what they remember, or the time is over."""
        if not self._inquiry.is_open or not self._inquiry.is_settled(now_ms=now_ms):
            return []
        mementos = self._inquiry.end()
        begun: list[PubendLog] = []
        for log in self._logs.values():
            memento = mementos.get(log.name)
            if memento is None or not log.former:
                self._begin(log, memento, now_ms)
                begun.append(log)
            else:
                self._mark_lost(log, memento, now_ms)
        return self._noted(begun)

    def on_committed(self, number: int) -> list[PubendLog]:
        """Commits up to this number are durable: pubends begin whose lost ticks were marked by one of them."""
        if not self._marking:
            return []
        begun: list[PubendLog] = []
        for pubend, (commit, ticks) in list(self._marking.items()):
            if commit <= number:
                del self._marking[pubend]
                log = self._logs[pubend]
                log.begin_after(ticks)
                begun.append(log)
        return self._noted(begun)

    # --- news

    def take_begun(self) -> bool:
        """Whether pubends have begun since this was last asked: what waited for them goes on."""
        has_begun, self._has_begun = self._has_begun, False
        return has_begun

    def take_known(self) -> LinkState | None:
        """What others are to be told of what this life knows of former ones, if that is news."""
        if not self._news_of_known:
            return None
        self._news_of_known = False
        return self._inquiry.told()

    # --- inside

    def _noted(self, begun: list[PubendLog]) -> list[PubendLog]:
        if begun:
            self._has_begun = self._news_of_known = True
        return begun

    def _begin(self, log: PubendLog, memento: Memento | None, now_ms: int) -> None:
        birth = log.begin(heard=0 if memento is None else memento.tick, now_ms=now_ms)
        if birth is not None:
            self._commits.add(birth)
        if memento is not None:
            # A store that is empty: subscribers hear of everything before it as of what was trimmed.
            self._note_lost(log, TickRange(Tick(1), Tick(log.promised)), memento)

    def _mark_lost(self, log: PubendLog, memento: Memento, now_ms: int) -> None:
        change = log.mark_lost(memento.tick, now_ms=now_ms)
        # Only when that is durable: until then, a crash leaves a store that knows nothing of the loss.
        self._marking[log.name] = self._commits.add(change), change.ticks
        self._note_lost(log, change.ticks, memento)

    def _note_lost(self, log: PubendLog, ticks: TickRange, memento: Memento) -> None:
        self.lost[log.name] = ticks
        self._inquiry.know(log.name, ticks.last)
        self._counts["history_lost"] += 1
        self._record_lost("history-lost", log.name, ticks, memento)

    def _on_late(self, pubend: str, memento: Memento) -> None:
        """Somebody knows better, but what was lost may have been told as silence by now."""
        log = self._logs[pubend]
        log.skip_to(memento.tick)
        self._inquiry.know(pubend, memento.tick)
        self._news_of_known = True
        self._counts["history_lost_late"] += 1
        ticks = TickRange(Tick(log.has + 1), Tick(memento.tick))
        self._record_lost("history-lost-late", pubend, ticks, memento)

    def _record_lost(self, event: str, pubend: str, ticks: TickRange, memento: Memento) -> None:
        first, last = ticks
        self._connections.record(event, pubend=pubend, first=first, last=last, remembered_by=memento.broker)
