"""All clauses that a server is tried against, in the order of the table."""

from __future__ import annotations

from typing import Final

from bench.stomp.clause import Clause
from bench.stomp.clauses import (
    acknowledging,
    connecting,
    ending,
    extensions,
    framing,
    heartbeats,
    sending,
    subscribing,
    transactions,
    web,
    whole,
)

__all__ = ["CLAUSES"]

_SECTIONS: Final = (
    connecting.SECTION,
    heartbeats.SECTION,
    framing.SECTION,
    sending.SECTION,
    subscribing.SECTION,
    acknowledging.SECTION,
    transactions.SECTION,
    ending.RECEIPT,
    ending.ERROR,
    ending.DISCONNECT,
    *extensions.SECTIONS,
    web.SECTION,
    whole.SECTION,
)
_VERSIONS: Final = ("1.2", "1.1", "1.0", "extension")


def _in_order() -> list[Clause]:
    """By version, and within a version by section; what looks at the whole run comes at the end."""
    every = [clause for section in _SECTIONS for clause in section.clauses]
    every.sort(key=lambda clause: _VERSIONS.index(clause.identifier.partition("/")[0]))
    last = {id(clause) for clause in whole.SECTION.clauses}
    return [each for each in every if id(each) not in last] + [each for each in every if id(each) in last]


CLAUSES: Final = tuple(_in_order())
"""Every clause; identifiers are unique."""
