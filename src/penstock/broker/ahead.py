"""What a shell makes durable ahead of messages that wait for space: trims, and named values.

Only trims make room, and only subscribers that come forward make trims possible. A durable subscription comes forward
when its claim is durable, which is a named value: if that waited behind the messages, they would wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from penstock.broker.durable import Append, Change, SetValue, Trim
from penstock.broker.effects import Commit
from penstock.model.tick import Tick

__all__ = ["changes_ahead", "without_values"]


def changes_ahead(commits: Iterable[Commit]) -> list[Change]:
    """The trims and named values of commits that wait, to be made durable in one commit of their own.

    No trim goes beyond messages that wait too: those could not be appended any more.
    """
    below: dict[str, Tick] = {}
    waiting: dict[str, Tick] = {}
    values: list[SetValue] = []
    for change in [change for commit in commits for change in commit.changes]:
        if isinstance(change, Trim):
            below[change.pubend] = max(change.below_tick, below.get(change.pubend, change.below_tick))
        elif isinstance(change, Append) and change.messages:
            waiting.setdefault(change.pubend, change.messages[0][0])
        elif isinstance(change, SetValue):
            values.append(change)
    trims = [Trim(pubend, min(tick, waiting.get(pubend, tick))) for pubend, tick in below.items()]
    return [*trims, *values]


def without_values(commit: Commit) -> Commit:
    """The rest of a commit whose named values went ahead: an older one must not replace a newer one later."""
    return replace(commit, changes=tuple(each for each in commit.changes if not isinstance(each, SetValue)))
