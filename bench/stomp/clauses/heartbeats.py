"""Clauses about heart-beats, both ways: what is agreed, what the server sends, and whether it notices silence."""

from __future__ import annotations

import re
import time
from itertools import pairwise
from typing import Final

from bench.stomp.clause import SINCE_1_1, Need, Section
from bench.stomp.raw import UnmetError, encode
from bench.stomp.stage import NotApplicableError, Session, Stage, alive, ended, same

__all__ = ["SECTION"]

SECTION: Final = Section("heart-beat")
_clause: Final = SECTION.clause
_HEADER: Final = re.compile(r"(\d+),(\d+)")
_WANTED_MS: Final = 400
_BEATS: Final = 4
_MARGIN_S: Final = 0.25
"""A machine that is busy may be so late."""
_LONGEST_MS: Final = 3_000
"""Intervals of the server above this are not waited for."""
_NOTICED_S: Final = 12.0


def _agreed(session: Session) -> tuple[int, int]:
    """What the server can send, and what it wants to get, in milliseconds; nothing said means neither."""
    text = session.connected.get("heart-beat") or "0,0"
    found = _HEADER.fullmatch(text)
    if not found:
        raise UnmetError(f"heart-beat is {text!r}")
    return int(found[1]), int(found[2])


def _beating(stage: Stage, ours_ms: int, wanted_ms: int) -> tuple[Session, int, int]:
    """A session with its intervals of server and client, both agreed by the maximum of what each side says."""
    session = stage.connect(headers=[("heart-beat", f"{ours_ms},{wanted_ms}")])
    sent_ms, expected_ms = _agreed(session)
    return session, max(sent_ms, wanted_ms) if sent_ms and wanted_ms else 0, expected_ms and max(expected_ms, ours_ms)


@_clause(Need.MUST, "heart-beat in CONNECTED, if there, is two numbers", versions=SINCE_1_1)
def _header(stage: Stage) -> str:
    session, *_ = _beating(stage, 5_000, 5_000)
    return session.connected.get("heart-beat") or "no heart-beat header"


@_clause(Need.MUST, "without a heart-beat header there are none, and silence is no reason to close", versions=SINCE_1_1)
def _none(stage: Stage) -> None:
    session = stage.connect()
    _silent(session)


@_clause(Need.MUST, "heart-beat:0,0 means none, and silence is no reason to close", versions=SINCE_1_1)
def _zero(stage: Stage) -> None:
    session = stage.connect(headers=[("heart-beat", "0,0")])
    _silent(session)


def _silent(session: Session) -> None:
    # The line end that may follow CONNECTED is no heart-beat.
    for _ in session.connection.arrivals(0.2):
        pass
    for at_s, data in session.connection.arrivals(2.0):
        raise UnmetError(f"the server sent {data!r} after {at_s:.1f} s")
    if session.connection.is_closed:
        raise UnmetError("the server closed the connection")
    alive(session)


@_clause(Need.MUST, "the server sends something at least as often as agreed", versions=SINCE_1_1)
def _server_beats(stage: Stage) -> str:
    session, interval_ms, _ = _beating(stage, 0, _WANTED_MS)
    if not interval_ms:
        raise NotApplicableError("the server says that it cannot send heart-beats")
    if interval_ms > _LONGEST_MS:
        raise NotApplicableError(f"the server sends every {interval_ms} ms, and we do not wait so long")
    times_s = [0.0, *(at_s for at_s, _ in session.connection.arrivals(_BEATS * interval_ms / 1_000 + _MARGIN_S))]
    longest_ms = max(((later - earlier) * 1_000 for earlier, later in pairwise(times_s)), default=0.0)
    if len(times_s) < _BEATS:
        raise UnmetError(f"{len(times_s) - 1} heart-beats in {_BEATS} intervals of {interval_ms} ms")
    if longest_ms > interval_ms + _MARGIN_S * 1_000:
        raise UnmetError(f"a gap of {longest_ms:.0f} ms, where {interval_ms} ms were agreed")
    return f"agreed {interval_ms} ms, longest gap {longest_ms:.0f} ms"


@_clause(Need.MUST, "a heart-beat of the server is a single line end", versions=SINCE_1_1)
def _single_line_end(stage: Stage) -> str:
    session, interval_ms, _ = _beating(stage, 0, _WANTED_MS)
    if not 0 < interval_ms <= _LONGEST_MS:
        raise NotApplicableError("the server sends no heart-beats that often")
    for _ in session.connection.arrivals(0.1):
        pass
    data = b"".join(part for _, part in session.connection.arrivals(3 * interval_ms / 1_000))
    line_ends = (b"\n", b"\r\n") if stage.version == "1.2" else (b"\n",)
    if not data or not any(data == each * data.count(b"\n") for each in line_ends):
        raise UnmetError(f"the server sent {data!r}")
    return f"{data!r} in three intervals"


@_clause(Need.SHOULD, "a client that agreed to send heart-beats and is silent is noticed", versions=SINCE_1_1)
def _silence_noticed(stage: Stage) -> str:
    session, _, interval_ms = _beating(stage, _WANTED_MS, 0)
    if not interval_ms:
        raise NotApplicableError("the server wants no heart-beats")
    start_s = time.monotonic()
    if not session.connection.closes(_NOTICED_S):
        raise UnmetError(f"not noticed within {_NOTICED_S:g} s, where {interval_ms} ms were agreed")
    return f"agreed {interval_ms} ms, closed after {time.monotonic() - start_s:.1f} s"


@_clause(Need.MUST, "line ends keep a client alive that has nothing else to say", versions=SINCE_1_1)
def _line_ends_keep_alive(stage: Stage) -> str:
    return _kept_alive(stage, b"\n", lateness=0.8)


@_clause(Need.MUST, "frames keep a client alive, too", versions=SINCE_1_1)
def _frames_keep_alive(stage: Stage) -> str:
    frame = encode("SEND", [("destination", stage.topic())], b"I live", version=stage.version)
    return _kept_alive(stage, frame, lateness=0.8)


@_clause(Need.SHOULD, "heart-beats that come a little late are tolerated", versions=SINCE_1_1)
def _lateness_tolerated(stage: Stage) -> str:
    return _kept_alive(stage, b"\n", lateness=1.25)


def _kept_alive(stage: Stage, sign: bytes, *, lateness: float) -> str:
    session, _, interval_ms = _beating(stage, _WANTED_MS, 0)
    if not interval_ms:
        raise NotApplicableError("the server wants no heart-beats")
    if interval_ms > _LONGEST_MS:
        raise NotApplicableError(f"the server wants them every {interval_ms} ms, and we do not wait so long")
    start_s = time.monotonic()
    while (passed_s := time.monotonic() - start_s) < 5 * interval_ms / 1_000:
        if session.connection.closes(lateness * interval_ms / 1_000):
            raise UnmetError(f"closed after {passed_s:.1f} s, agreed {interval_ms} ms")
        session.connection.send(sign)
    alive(session)
    return f"agreed {interval_ms} ms"


@_clause(Need.MUST, "both directions have their own interval", versions=SINCE_1_1)
def _directions_apart(stage: Stage) -> str:
    session, sent_ms, expected_ms = _beating(stage, 60_000, _WANTED_MS)
    if not 0 < sent_ms <= _LONGEST_MS:
        raise NotApplicableError("the server sends no heart-beats that often")
    # We promised one a minute, and need not send any now.
    if session.connection.closes(6 * _WANTED_MS / 1_000):
        raise UnmetError("closed although our first heart-beat was not due")
    return f"server every {sent_ms} ms, client every {expected_ms} ms"


@_clause(Need.SHOULD, "a heart-beat header that is no pair of numbers is refused by ERROR", versions=SINCE_1_1)
def _malformed(stage: Stage) -> str:
    told: list[str] = []
    for value in ("soon,later", "100", "-1,0"):
        connection = stage.raw()
        connection.send(encode("CONNECT", stage.opening(headers=[("heart-beat", value)])))
        how = ended(stage, connection)
        told.append(how)
    same([each for each in told if each.startswith("closed")], [], "refusals without ERROR")
    return told[0]
