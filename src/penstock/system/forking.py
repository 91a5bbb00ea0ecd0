"""Tells objects that belong to one process when they find themselves in a forked child.

A child has copies of all objects and of the file descriptors behind them, but of no thread except the one that called
``fork``. Two processes must not share an object's identity, and anything a copy sends on a socket, it sends in the
parent's name. Processes started with ``spawn`` or ``exec`` have no copies, so they are not affected.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet

__all__ = ["Forkable", "let_go", "tell_after_fork", "where_opened"]


class Forkable(Protocol):
    """An object that must know when it was forked."""

    def on_forked(self) -> None:
        """Handle being the copy in the child; called before anything else happens there."""


_watched: WeakSet[Forkable] = WeakSet()


def tell_after_fork(each: Forkable) -> None:
    """Call ``on_forked`` of this object in every child that is forked while it exists."""
    _watched.add(each)


def let_go(descriptor: int) -> None:
    """Detach the child's copy of a socket without sending anything on it or disturbing a poll set.

    The descriptor stays open, but leads nowhere: only its owner could close it, an event loop of the parent, which
    shares its poll set with the child and would stop polling in the parent, too.
    """
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.dup2(nothing, descriptor, inheritable=False)
    finally:
        os.close(nothing)


def where_opened(what: str, process: int) -> str:
    """The error message for using a copy."""
    return f"this {what} was opened in process {process}, and this is process {os.getpid()}: open one after each fork"


def _in_child() -> None:
    for each in list(_watched):
        each.on_forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
