"""Clauses about connecting: CONNECT and STOMP, versions, credentials, and connections that come and go."""

from __future__ import annotations

import re
from typing import Final

from bench.stomp.clause import EVERY_VERSION, EXTENSION, SINCE_1_1, Need, Section
from bench.stomp.raw import UnmetError, encode
from bench.stomp.stage import NotApplicableError, Stage, alive, ended, expect, needed, same

__all__ = ["SECTION"]

SECTION: Final = Section("connect")
_clause: Final = SECTION.clause
_SERVER: Final = re.compile(r"[^\s/]+(/\S+)?( .*)?")
_RAPID: Final = 200


@_clause(Need.MUST, "CONNECT is answered by CONNECTED, and the connection works", versions=EVERY_VERSION)
def _connected(stage: Stage) -> None:
    alive(stage.connect())


@_clause(Need.MUST, "CONNECTED names the version of the session", versions=SINCE_1_1)
def _version_header(stage: Stage) -> None:
    same(stage.connect().connected.get("version"), stage.version, "version")


@_clause(Need.MUST, "CONNECTED has a session header", versions=("1.0",))
def _session_header(stage: Stage) -> str:
    return needed(stage.connect().connected, "session")


@_clause(Need.MUST, "session, if there is one, is unique", versions=SINCE_1_1)
def _session_unique(stage: Stage) -> None:
    first, second = (stage.connect().connected.get("session") for _ in range(2))
    if first is None:
        raise NotApplicableError("no session header")
    if first == second:
        raise UnmetError(f"two sessions are both called {first}")


@_clause(Need.MUST, "server, if there is one, is a name, maybe with /version and comments", versions=SINCE_1_1)
def _server_header(stage: Stage) -> str:
    server = stage.connect().connected.get("server")
    if server is None:
        raise NotApplicableError("no server header")
    if not _SERVER.fullmatch(server):
        raise UnmetError(f"server is {server!r}")
    return server


def _stomp_frame(stage: Stage) -> None:
    connection = stage.raw()
    connection.send(encode("STOMP", stage.opening()))
    same(needed(expect(connection.frame(), "CONNECTED"), "version"), stage.version, "version")


_STOMP: Final = "a STOMP frame is handled like CONNECT"
SECTION.add("stomp-frame", Need.MUST, _STOMP, _stomp_frame)
SECTION.add("stomp-frame", Need.SHOULD, _STOMP, _stomp_frame, versions=("1.1",))


@_clause(Need.MUST, "CONNECT without accept-version means version 1.0", versions=("1.0",))
def _no_accept_version(stage: Stage) -> str | None:
    version = stage.connect().connected.get("version")
    if version not in (None, "1.0"):
        raise UnmetError(f"version is {version}")
    return None if version else "no version header"


def _negotiated(stage: Stage, offered: str, wanted: str) -> None:
    connected = stage.connect(headers=[("accept-version", offered)]).connected
    same(needed(connected, "version"), wanted, f"version after accept-version:{offered}")


@_clause(Need.MUST, "the highest version that both have in common is chosen")
def _highest_of_all(stage: Stage) -> None:
    _negotiated(stage, "1.0,1.1,1.2", "1.2")


@_clause(Need.MUST, "versions that the server does not know are passed over")
def _highest_in_common(stage: Stage) -> None:
    _negotiated(stage, "1.0,1.1,2.0", "1.1")
    _negotiated(stage, "1.2,9.9", "1.2")


@_clause(Need.MUST, "accept-version:1.0 alone gives version 1.0")
def _lowest_alone(stage: Stage) -> None:
    _negotiated(stage, "1.0", "1.0")


@_clause(Need.SHOULD, "the highest common version is chosen in whatever order they are listed")
def _versions_in_any_order(stage: Stage) -> None:
    _negotiated(stage, "1.2,1.0,1.1", "1.2")


@_clause(Need.MUST, "without a common version the server sends ERROR and closes")
def _no_common_version(stage: Stage) -> str:
    connection = stage.raw()
    connection.send(encode("CONNECT", stage.opening(headers=[("accept-version", "9.8,9.9")])))
    frame = expect(connection.frame(), "ERROR")
    if not connection.closes():
        raise UnmetError(f"the connection stays open after {frame}")
    return str(frame)


@_clause(Need.SHOULD, "the ERROR to unknown versions lists the versions of the server in a version header")
def _known_versions_listed(stage: Stage) -> str:
    connection = stage.raw()
    connection.send(encode("CONNECT", stage.opening(headers=[("accept-version", "9.8,9.9")])))
    versions = needed(expect(connection.frame(), "ERROR"), "version")
    if "1.2" not in versions.split(","):
        raise UnmetError(f"version is {versions}")
    return versions


@_clause(Need.MAY, "CONNECT without host is accepted, or refused by ERROR", versions=SINCE_1_1)
def _no_host(stage: Stage) -> str:
    return _accepted_or_refused(stage, [each for each in stage.opening() if each[0] != "host"])


@_clause(Need.MAY, "an unknown virtual host is taken for the default one, or refused by ERROR", versions=SINCE_1_1)
def _unknown_host(stage: Stage) -> str:
    return _accepted_or_refused(stage, stage.opening(headers=[("host", "no-such-host")]))


def _accepted_or_refused(stage: Stage, headers: list[tuple[str, str]]) -> str:
    connection = stage.raw()
    connection.send(encode("CONNECT", headers))
    frame = connection.frame()
    if frame.command == "CONNECTED":
        return "accepted"
    if not connection.closes():
        raise UnmetError(f"the connection stays open after {frame}")
    return f"refused: {expect(frame, 'ERROR')}"


@_clause(Need.SHOULD, "a wrong passcode is answered by ERROR, and the connection is closed", versions=EVERY_VERSION)
def _wrong_passcode(stage: Stage) -> str:
    if not stage.target.login:
        raise NotApplicableError("the server lets everybody in")
    connection = stage.raw()
    connection.send(encode("CONNECT", stage.opening(headers=[("passcode", "wrong")])))
    frame = expect(connection.frame(), "ERROR")
    if not connection.closes():
        raise UnmetError(f"the connection stays open after {frame}")
    return str(frame)


@_clause(Need.SHOULD, "an unknown login is answered by ERROR, and does not say whether the name exists")
def _unknown_login(stage: Stage) -> None:
    if not stage.target.login:
        raise NotApplicableError("the server lets everybody in")
    told: list[str] = []
    for headers in ([("passcode", "wrong")], [("login", "nobody"), ("passcode", "wrong")]):
        connection = stage.raw()
        connection.send(encode("CONNECT", stage.opening(headers=headers)))
        told.append(
            (expect(connection.frame(), "ERROR").get("message") or "").replace(dict(headers).get("login", ""), "")
        )
    if told[0].replace(stage.target.login, "") != told[1]:
        raise UnmetError(f"{told[0]!r} for a known name, {told[1]!r} for an unknown one")


@_clause(Need.MUST, "CONNECT knows no escapes: a backslash or colon in a value is no error", versions=SINCE_1_1)
def _no_escapes_in_connect(stage: Stage) -> None:
    # Written by hand, since no header of CONNECT would have such a value otherwise.
    lines = "".join(f"{name}:{value}\n" for name, value in [*stage.opening(), ("odd", r"a\tb\q:c")])
    connection = stage.raw()
    connection.send(f"CONNECT\n{lines}\n\0".encode())
    expect(connection.frame(), "CONNECTED")


@_clause(Need.MUST, "nothing is done for a client that sends frames before CONNECT")
def _frame_before_connect(stage: Stage) -> str:
    topic = stage.topic()
    session = stage.connect()
    session.subscribe(topic)
    early = stage.raw()
    early.send(encode("SEND", [("destination", topic)], b"too early"))
    how = ended(stage, early)
    session.nothing_comes("a message of a client that never connected was delivered")
    return how


@_clause(Need.MAY, "a second CONNECT is refused by ERROR, or answered", versions=EVERY_VERSION)
def _second_connect(stage: Stage) -> str:
    session = stage.connect()
    session.write("CONNECT", stage.opening())
    frame = session.connection.frame()
    if frame.command == "CONNECTED":
        alive(session)
        return "answered by CONNECTED"
    return str(expect(frame, "ERROR"))


@_clause(Need.MUST, f"{_RAPID} clients that connect and vanish at once do no harm")
def _rapid_connections(stage: Stage) -> None:
    session = stage.connect()
    for _ in range(_RAPID):
        connection = stage.raw()
        connection.send(encode("CONNECT", stage.opening()))
        connection.close()
    alive(session)
    alive(stage.connect())


@_clause(Need.MUST, "clients that vanish within a frame do no harm, and the unfinished frame is not processed")
def _unfinished_frames(stage: Stage) -> None:
    topic = stage.topic()
    session = stage.connect()
    session.subscribe(topic)
    for part in (b"CONN", b"CONNECT\naccept-ver", b"CONNECT\naccept-version:1.2\nhost:x\n\n"):
        connection = stage.raw()
        connection.send(part)
        connection.close()
    half = stage.connect()
    half.connection.send(encode("SEND", [("destination", topic)], b"unfinished")[:-1])
    half.drop()
    session.nothing_comes("an unfinished frame was processed")
    alive(session)


@_clause(Need.MAY, "line ends before CONNECT are passed over", versions=(EXTENSION,))
def _line_ends_first(stage: Stage) -> str:
    connection = stage.raw()
    connection.send(b"\n\n" + encode("CONNECT", stage.opening()))
    return connection.frame().command


@_clause(Need.MAY, "a client that does not speak STOMP at all is sent away", versions=(EXTENSION,))
def _foreign_protocol(stage: Stage) -> str:
    connection = stage.raw()
    connection.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    for _, data in connection.arrivals(1.0):
        return f"answered {data[:80]!r}"
    return "closed" if connection.is_closed else "still open after 1 s, as the first frame could still come"
