"""Carries a connection over WebSocket: a protocol for the network, and a transport for the protocol inside it.

``WebSocketProtocol`` answers the opening handshake, and then gives the inner protocol, a ``Connection`` for example, a
``WebSocketTransport``. The inner protocol sees a stream of bytes, as over TCP: each of its writes is sent as one
message, and it receives the payloads of the client's messages, without their borders and whether text or binary.

Writes are sent as text if they are valid UTF-8 and the client's last message was text, else as binary. So a client that
speaks text is answered in text, and bodies that no text can hold still reach it.

What the client sends is bounded: the head of the request and the time it may take, and each message. Compression is
never agreed on, since a small message could unpack to a huge one. A turn of the event loop handles a limited number of
frames, however tiny they are, and a client that sends pings but reads no answers is owed the last answer only.

The library ``websockets`` knows the protocol itself, without I/O.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, cast

from penstock.live.connection import DRAIN_S, LINGER_S
from penstock.live.errors import ConfigError

if TYPE_CHECKING:
    from websockets.frames import Frame
    from websockets.http11 import Request
    from websockets.server import ServerProtocol
    from websockets.typing import Subprotocol

__all__ = ["WebSocketProtocol", "WebSocketSettings", "WebSocketTransport", "require_websockets"]

_HEAD_END: Final = b"\r\n\r\n"
_SLICE_BYTES: Final = 8 * 1024
"""Bytes parsed in one go; between two slices the inner protocol may pause reading."""
_TOLD_BYTES_MIN: Final = 64 * 1024
"""From this much on, the inner protocol is told how much of a message has arrived."""
_TURN_FRAMES_MAX: Final = 1_000
"""Frames after which the rest waits for the next turn of the loop: some milliseconds of work."""
_CONTINUATION, _TEXT, _BINARY, _CLOSE = 0x0, 0x1, 0x2, 0x8
_PONG_START: Final = 0x8A
"""The first byte of a pong: the last frame of its message, opcode 10."""
_NORMAL: Final = 1000
_INVALID_DATA: Final = 1007
_TOO_BIG: Final = 1009
_ANY_ORIGIN: Final = "*"


@dataclass(slots=True, frozen=True)
class WebSocketSettings:
    """What a listener for WebSocket accepts; raises ``ConfigError`` if that is not possible."""

    subprotocols: tuple[str, ...]
    """Subprotocols in the order of preference; a client that offers none of them is refused."""
    origins: tuple[str, ...] = ()
    """Sites whose pages may connect, like "https://desk.example"; "*" for all, none for those of the host dialled.

    Clients that are not browsers send no origin, and are not affected.
    """
    message_bytes_max: int = 16 * 1024 * 1024
    """Largest message from a client."""
    first_bytes_max: int = 64 * 1024
    """Largest message, roughly, from a client that has not authenticated."""
    head_bytes_max: int = 16 * 1024
    """Largest head of a request."""
    handshake_s: float = 5.0
    """How long a client may take to send the head of its request."""

    def __post_init__(self) -> None:
        if not self.subprotocols:
            raise ConfigError("subprotocols is empty, must name at least one")
        for name in ("message_bytes_max", "first_bytes_max", "head_bytes_max", "handshake_s"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} is {getattr(self, name)}, must be above 0")


def require_websockets(who: str) -> None:
    """Raises ``ConfigError`` if the library, which a listener for WebSocket needs, is missing."""
    if find_spec("websockets") is None:
        raise ConfigError(f"{who} listens for WebSocket, which needs websockets; install penstock[server]")


class WebSocketTransport(asyncio.Transport):
    """The inner protocol's transport, with the buffer and the limits of the transport below."""

    def __init__(self, outer: WebSocketProtocol, real: asyncio.Transport) -> None:
        super().__init__()
        self._outer = outer
        self._real = real

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What the transport below knows, and ``subprotocol``."""
        return self._outer.subprotocol if name == "subprotocol" else self._real.get_extra_info(name, default)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """The inner protocol."""
        return self._outer.inner

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send the data as one message; nothing is sent if the connection is closing."""
        self._outer.send(bytes(data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set when the inner protocol is paused and resumed."""
        self._real.set_write_buffer_limits(high=high, low=low)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """The limits, low first."""
        return self._real.get_write_buffer_limits()

    def get_write_buffer_size(self) -> int:
        """Bytes not handed to the system yet, headers of frames included."""
        return self._real.get_write_buffer_size()

    def pause_reading(self) -> None:
        """Read nothing from the socket until ``resume_reading``."""
        self._outer.hold()

    def resume_reading(self) -> None:
        """Continue reading in the next turn of the loop."""
        self._outer.resume()

    def is_reading(self) -> bool:
        """Whether the inner protocol may receive data."""
        return not self._outer.is_held and not self.is_closing()

    def can_write_eof(self) -> bool:
        """True, also over TLS: WebSocket has a message for it."""
        return True

    def write_eof(self) -> None:
        """Tell the client that nothing follows; what it still sends before it agrees is received."""
        self._outer.say_close()

    def is_closing(self) -> bool:
        """Whether nothing can be sent any more, because one side has closed the connection or broken the protocol."""
        return self._outer.is_closing

    def close(self) -> None:
        """Send what is buffered, tell the client that nothing follows, and wait for its answer, but not for long."""
        self._outer.close()

    def abort(self) -> None:
        """Cut the connection."""
        self._outer.abort()

    def know(self) -> None:
        """Allow large messages from now on: the client has authenticated."""
        self._outer.know()


class WebSocketProtocol(asyncio.Protocol):
    """The server's side of one WebSocket connection."""

    def __init__(
        self,
        inner: asyncio.Protocol,
        settings: WebSocketSettings,
        *,
        drain_s: float = DRAIN_S,
        linger_s: float = LINGER_S,
    ) -> None:
        self.inner: Final = inner
        self.settled: Final = asyncio.Event()
        """Set when the opening handshake is over: the inner protocol is connected, or the client is gone."""
        self.problem = ""
        """Why the client was refused, or which rule of the protocol it broke; empty if neither."""
        self._settings = settings
        self._drain_s, self._linger_s = drain_s, linger_s
        self._library = _library_for(settings)
        self._real: asyncio.Transport | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._deadline: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._head_tail = b""
        """The last bytes of the head so far, which may be part of its end."""
        self._is_open = False
        """Whether the inner protocol has been connected; it stays true."""
        self._is_known = False
        self._unread = bytearray()
        """What was read from the socket but is not parsed yet; no more is read meanwhile."""
        self._next: asyncio.Handle | None = None
        """The next turn, if what is unread waits for it."""
        self._is_reading = True
        self._is_held = False
        self._unfinished_bytes = 0
        """Bytes kept of a message that is not complete; up to a slice too many."""
        self._message = bytearray()
        """The fragments of a message that is not complete."""
        self._is_text = False
        self._answers_in_text = False
        self._is_full = False
        self._owed = b""
        """The pong to send when there is room."""
        self._has_heard_close = False
        self._said_close_s: float | None = None
        self._is_closed_inside = False
        """Whether the inner protocol has closed its transport, and receives nothing more."""
        self._is_over = False
        """Whether WebSocket has ended in both directions; what remains is to close the connection below."""

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the request."""
        # A cast, not an assert: uvloop's transports quack like asyncio's but do not inherit from them.
        self._real = cast("asyncio.Transport", transport)
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(self._settings.handshake_s, self._on_deadline)

    def data_received(self, data: bytes) -> None:
        """Handle the data, as much as is due in this turn."""
        if self._is_over:
            return
        self._unread += data
        if self._next is None and not self._is_held:
            self._work()

    def eof_received(self) -> bool:
        """Close: the client has left without a word."""
        if not self._is_over:
            self._is_over = True
            self._tell_eof()
            if self._real is not None:
                # Who has left may never read what is buffered.
                self._later(self._drain_s, self._real.abort)
        return False

    def pause_writing(self) -> None:
        """Pass it on: the buffer below is full."""
        self._is_full = True
        if self._is_open:
            self.inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on, and send the answer that had to wait."""
        self._is_full = False
        if self._is_open:
            self.inner.resume_writing()
        # The inner protocol may have filled the buffer again.
        if self._owed and not self._is_full:
            if self._real is not None and not self._is_over and not self._library.close_expected():
                self._real.write(self._owed)
            self._owed = b""

    def connection_lost(self, exc: Exception | None) -> None:
        """Clean up, and tell the inner protocol if it was ever connected."""
        self._real = None
        self._is_over = True
        self._stop_reading()
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._cancel_deadline()
        self.settled.set()
        if self._is_open:
            self.inner.connection_lost(exc)

    # Called by whoever accepts connections.

    @property
    def subprotocol(self) -> str:
        """The subprotocol agreed on; empty before that."""
        return (self._library.subprotocol or "") if self._is_open else ""

    def know(self) -> None:
        """Allow large messages from now on: the client has authenticated."""
        self._is_known = True

    def abort(self) -> None:
        """Cut the connection, also during the handshake."""
        self._is_closed_inside = True
        self._is_over = True
        self._stop_reading()
        if self._real is not None:
            self._real.abort()

    # Called by the inner protocol's transport.

    @property
    def is_held(self) -> bool:
        """Whether the inner protocol has paused reading."""
        return self._is_held

    @property
    def is_closing(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._is_closed_inside or self._is_over or self._has_heard_close or self._real is None

    def send(self, data: bytes) -> None:
        """Send one message, as text or as binary."""
        # The library knows before this object does that the client has closed the connection in the data at hand.
        if self._real is None or not data or self._is_over or self._library.close_expected():
            return
        if self._answers_in_text and _is_utf8(data):
            self._library.send_text(data)
        else:
            self._library.send_binary(data)
        self._pass_on()

    def hold(self) -> None:
        """Stop reading and handling messages until ``resume``."""
        if not self.is_closing:
            self._is_held = True
            self._steer()

    def resume(self) -> None:
        """Continue in the next turn."""
        if self._is_held:
            self._is_held = False
            if self._unread:
                self._put_off()
            else:
                self._steer()

    def say_close(self) -> None:
        """Begin the closing handshake, unless it has begun."""
        if self._real is None or self._is_over or self._library.close_expected():
            return
        self._said_close_s = asyncio.get_running_loop().time()
        # Nobody wants it any more.
        self._message.clear()
        self._library.send_close(_NORMAL)
        self._pass_on()

    def close(self) -> None:
        """Begin the closing handshake, and close when it is done, or after a while."""
        if self._is_closed_inside or self._real is None:
            return
        self.say_close()
        self._is_closed_inside = True
        if self._is_over:
            return
        waited_s = 0.0 if self._said_close_s is None else asyncio.get_running_loop().time() - self._said_close_s
        self._later(max(self._linger_s - waited_s, 0.0), self._real.close)
        # The client's answer may be among what was not to be read.
        self.resume()

    # The opening handshake.

    def _on_deadline(self) -> None:
        if not self._is_over:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, f"no complete request within {self._settings.handshake_s:g} s")

    def _take_head(self) -> None:
        """Parse the head of the request, and nothing behind it: frames would be answered before the request is."""
        piece = bytes(self._unread[: self._settings.head_bytes_max - self._head_bytes])
        before = self._head_tail
        end = (before + piece).find(_HEAD_END)
        if end >= 0:
            piece = piece[: end + len(_HEAD_END) - len(before)]
        del self._unread[: len(piece)]
        self._head_bytes += len(piece)
        self._head_tail = (before + piece)[1 - len(_HEAD_END) :]
        self._library.receive_data(piece)
        requests = cast("list[Request]", self._library.events_received())
        if requests:
            self._answer(requests[0])
        elif self._library.close_expected():
            self._refuse_malformed()
        elif self._head_bytes >= self._settings.head_bytes_max:
            reason = f"the head of the request is longer than {self._settings.head_bytes_max:,} bytes"
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, reason)

    def _answer(self, request: Request) -> None:
        response = self._library.accept(request)
        if response.status_code == HTTPStatus.SWITCHING_PROTOCOLS:
            problem = _misled(
                request.headers.get_all("Origin"), request.headers.get_all("Host"), self._settings.origins
            )
            if problem:
                self._refuse(HTTPStatus.FORBIDDEN, problem)
                return
            self._library.send_response(response)
            self._open()
        elif response.status_code == HTTPStatus.UPGRADE_REQUIRED:
            self._refuse(HTTPStatus.UPGRADE_REQUIRED, "this port speaks WebSocket only", Upgrade="websocket")
        else:
            self.problem = str(self._library.handshake_exc)
            self._library.send_response(response)
            self._pass_on()

    def _open(self) -> None:
        assert self._real is not None
        assert not self._is_open
        self._is_open = True
        self._cancel_deadline()
        self.settled.set()
        self._pass_on()
        self.inner.connection_made(WebSocketTransport(self, self._real))

    def _refuse(self, status: HTTPStatus, reason: str, **headers: str) -> None:
        self.problem = reason
        response = self._library.reject(status, f"{reason}\n")
        for name, value in headers.items():
            response.headers[name] = value
        self._library.send_response(response)
        self._pass_on()

    def _refuse_malformed(self) -> None:
        """Tell the client what the library only noticed; for some faults it has its own answer."""
        self.problem = "not a request of HTTP/1.1 for WebSocket"
        writes = self._library.data_to_send()
        if not any(writes):
            writes = [self._library.reject(HTTPStatus.BAD_REQUEST, f"{self.problem}\n").serialize()]
        if self._real is not None:
            self._real.write(b"".join(writes))
        self._end()

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    # Messages.

    def _work(self) -> None:
        """Handle what is unread, until the inner protocol wants no more or the turn is over."""
        frames = 0
        while self._unread and not self._is_held and not self._is_over:
            if frames > _TURN_FRAMES_MAX:
                self._put_off()
                break
            if self._is_open:
                frames += self._take_slice()
            else:
                self._take_head()
        self._steer()

    def _work_later(self) -> None:
        self._next = None
        try:
            self._work()
        except Exception:
            # Where asyncio calls a protocol, it closes the connection; here nobody else would.
            self.abort()
            raise

    def _put_off(self) -> None:
        if self._next is None:
            self._next = asyncio.get_running_loop().call_soon(self._work_later)

    def _steer(self) -> None:
        """Read from the socket only if nothing read before waits."""
        should_read = not self._is_held and not self._unread
        if should_read == self._is_reading or self._real is None or self._real.is_closing():
            return
        self._is_reading = should_read
        if should_read:
            self._real.resume_reading()
        else:
            self._real.pause_reading()

    def _stop_reading(self) -> None:
        """Drop what is unread, and what the client still sends."""
        self._is_held = False
        self._unread.clear()
        self._message.clear()
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _take_slice(self) -> int:
        """Handle the next bytes; returns how many frames they completed."""
        piece = bytes(self._unread[:_SLICE_BYTES])
        del self._unread[: len(piece)]
        self._library.receive_data(piece)
        # Before the handshake there are requests among the events, now there are frames only.
        frames = cast("list[Frame]", self._library.events_received())
        messages = self._complete(frames)
        before = self._unfinished_bytes
        # Behind a complete frame no more than this piece can wait, apart from fragments.
        self._unfinished_bytes = len(piece) + (len(self._message) if frames else self._unfinished_bytes)
        if not self._is_known and self._unfinished_bytes > self._settings.first_bytes_max + _SLICE_BYTES:
            reason = f"more than {self._settings.first_bytes_max:,} bytes before authentication"
            self._library.fail(_TOO_BIG, reason)
        if self._is_known and not self._is_closed_inside and max(before, self._unfinished_bytes) > _TOLD_BYTES_MIN:
            self._tell_progress()
        if messages and not self._is_closed_inside:
            self.inner.data_received(messages[0] if len(messages) == 1 else b"".join(messages))
        if self._has_heard_close:
            self._tell_eof()
        self._pass_on()
        return len(frames)

    def _tell_progress(self) -> None:
        """Tell the inner protocol, if it wants to know, how much has arrived of a message that is not complete."""
        progress = getattr(self.inner, "progress", None)
        if progress is not None:
            progress(self._unfinished_bytes)

    def _complete(self, frames: Iterable[Frame]) -> list[bytes]:
        """The payloads of the messages that these frames complete; the client is told if a text is none."""
        messages: list[bytes] = []
        for frame in frames:
            if frame.opcode == _CLOSE:
                self._has_heard_close = True
            if frame.opcode not in (_CONTINUATION, _TEXT, _BINARY):
                continue
            if frame.opcode != _CONTINUATION:
                self._is_text = frame.opcode == _TEXT
            if not frame.fin:
                if self._said_close_s is None:
                    self._message += frame.data
                continue
            if self._message:
                self._message += frame.data
                message = bytes(self._message)
                self._message.clear()
            else:
                message = bytes(frame.data)
            if self._is_text and self._said_close_s is None and not _is_utf8(message):
                self._library.fail(_INVALID_DATA, "a text message is not valid UTF-8")
                break
            self._answers_in_text = self._is_text
            if message:
                messages.append(message)
        return messages

    def _tell_eof(self) -> None:
        if self._is_open and not self._is_closed_inside:
            # What it answers does not matter: nothing can be sent after the client's Close.
            self.inner.eof_received()

    # Towards the network.

    def _pass_on(self) -> None:
        """Write what the library wants to be sent, and end the connection if it says so."""
        if self._is_over:
            return
        writes = self._library.data_to_send()
        ends = b"" in writes
        if self._is_full:
            writes = self._without_pongs(writes)
        if self._real is not None and any(writes):
            self._real.write(b"".join(writes))
        if ends:
            self._end()

    def _without_pongs(self, writes: list[bytes]) -> list[bytes]:
        """Keep only the last pong, for later: a client that pings but does not read must not fill memory."""
        kept = []
        for data in writes:
            if data and data[0] == _PONG_START:
                self._owed = data
            else:
                kept.append(data)
        return kept

    def _end(self) -> None:
        """Close the connection below, so that the client can still read what was sent."""
        if self._is_over:
            return
        self._is_over = True
        said = self._library.close_sent
        if said is not None and not self._has_heard_close and self._said_close_s is None:
            self.problem = str(said)
        self._stop_reading()
        self._cancel_deadline()
        real = self._real
        if real is None:
            return
        self._steer()
        self._later(self._linger_s, real.close)
        self._later(self._drain_s, real.abort)
        if real.can_write_eof():
            try:
                real.write_eof()
            except OSError:
                # The client has already gone, and the loop has not noticed yet.
                real.abort()
        elif self._has_heard_close:
            real.close()
        # Else TLS, and a client that may still be sending: closing at once would lose the reason.

    def _later(self, delay_s: float, action: Callable[[], None]) -> None:
        self._timers.append(asyncio.get_running_loop().call_later(delay_s, action))


def _library_for(settings: WebSocketSettings) -> ServerProtocol:
    from websockets.exceptions import NegotiationError
    from websockets.server import ServerProtocol

    def select(_library: ServerProtocol, offered: Sequence[Subprotocol]) -> Subprotocol:
        for name in settings.subprotocols:
            if name in offered:
                return cast("Subprotocol", name)
        raise NegotiationError(f"the client offers no subprotocol of {', '.join(settings.subprotocols)}")

    return ServerProtocol(extensions=None, select_subprotocol=select, max_size=settings.message_bytes_max)


def _misled(origins: Sequence[str], hosts: Sequence[str], allowed: Sequence[str]) -> str:
    """Why a request must have come from a page that has no business here; empty if it may connect."""
    if not origins or _ANY_ORIGIN in allowed:
        return ""
    (origin,) = origins
    if allowed:
        welcome = [each.lower() for each in allowed]
    else:
        welcome = [f"{scheme}://{host.lower()}" for scheme in ("http", "https") for host in hosts if len(hosts) == 1]
    return "" if origin.lower() in welcome else f"pages of {origin!r} may not connect"


def _is_utf8(data: bytes) -> bool:
    # Most texts are ASCII, which takes no copy to find out.
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
