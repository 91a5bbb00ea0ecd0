"""Runs one broker until it is stopped: the common part of all broker processes."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.live.collecting import collecting_in_steps
from penstock.live.descriptors import raise_limit
from penstock.live.errors import ConfigError
from penstock.live.node import BrokerNode
from penstock.live.overlay import Overlay
from penstock.live.signals import ENDING, Signals, early
from penstock.system.logs import configure_logs, log
from penstock.system.loop import run

__all__ = ["run_broker", "serve"]


def run_broker(overlay: Overlay, name: str, *, log_level: str = "info", log_json: bool = False) -> None:
    """Run a broker as this process: log to standard error, and print one line to standard output once it listens."""
    overlay.place_of(name)
    configure_logs(level=log_level, as_json=log_json)
    run(serve(overlay, name, on_ready=_tell, signals=early))


def _tell(node: BrokerNode) -> None:
    scheme = "penstock" if node.place.tls is None else "penstocks"
    host, port = node.address
    shown_host = f"[{host}]" if ":" in host else host
    sys.stdout.write(f"broker {node.name} listens at {scheme}://{shown_host}:{port}\n")
    # The program that started this waits for the line, and standard output may be a pipe.
    sys.stdout.flush()


async def serve(
    overlay: Overlay, name: str, *, on_ready: Callable[[BrokerNode], None] | None = None, signals: Signals | None = None
) -> None:
    """Run the broker of that name until SIGINT or SIGTERM, then stop it in order; a second signal ends it at once.

    SIGHUP makes it reread its overlay file. Signals that come while it starts, or that ``signals`` noted before, are
    handled as soon as it has started. Raises ``NodeFailedError`` if the broker failed, and had to stop by itself.
    """
    raise_limit()
    asked, hangups = asyncio.Event(), _Hangups()
    with _handling(signals, on_hangup=hangups.add, on_ending=asked.set):
        if asked.is_set():
            return
        async with BrokerNode(overlay, name) as node:
            hangups.hand_to(node)
            if on_ready is not None:
                on_ready(node)
            with collecting_in_steps():
                await _first_of(asked, node.has_failed)
            hangups.ignore()
    if node.failure is not None:
        raise node.failure


class _Hangups:
    """The SIGHUPs of one broker; several that come before it has started count once, since the file is the same."""

    def __init__(self) -> None:
        self._node: BrokerNode | None = None
        self._is_waiting = self._is_over = False

    def add(self) -> None:
        if self._node is None:
            self._is_waiting = True
        elif not self._is_over:
            _reread(self._node)

    def hand_to(self, node: BrokerNode) -> None:
        self._node = node
        if self._is_waiting:
            _reread(node)

    def ignore(self) -> None:
        """Ignore SIGHUPs from now on: the broker is stopping."""
        self._is_over = True


@contextmanager
def _handling(
    signals: Signals | None, *, on_hangup: Callable[[], None], on_ending: Callable[[], None]
) -> Iterator[None]:
    """Pass signals to the loop; SIGHUP by our own handler, as the loop's would let it kill us once it is closed."""
    loop = asyncio.get_running_loop()
    noted = signals if signals is not None else Signals()
    before = signal.getsignal(signal.SIGHUP)

    def end() -> None:
        # The next signal ends the process at once.
        for each in ENDING:
            loop.remove_signal_handler(each)
        on_ending()

    for each in ENDING:
        loop.add_signal_handler(each, end)
    signal.signal(signal.SIGHUP, noted.note_hangup)
    noted.hand_hangups_to(lambda: loop.call_soon_threadsafe(on_hangup))
    if noted.must_end:
        end()
    try:
        yield
    finally:
        noted.hand_hangups_to(None)
        # An ending process ignores SIGHUP from here on: our handlers are not called while Python is finalized.
        signal.signal(signal.SIGHUP, before if signals is None else signal.SIG_IGN)
        for each in ENDING:
            loop.remove_signal_handler(each)


def _reread(node: BrokerNode) -> None:
    try:
        change = node.reread()
    except ConfigError as error:
        # It continues unchanged: there is no way to tell the sender of the signal.
        log("overlay-refused", (("broker", node.name), ("reason", str(error))))
    else:
        if not change:
            log("overlay-unchanged", (("broker", node.name),))


async def _first_of(*events: asyncio.Event) -> None:
    waits = [asyncio.create_task(each.wait()) for each in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
