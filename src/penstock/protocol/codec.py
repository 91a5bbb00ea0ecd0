"""Encodes and decodes frames; malformed bytes raise ``ProtocolError``, never anything else.

Every frame: length of the rest (4 bytes, big-endian), kind (1 byte), content. Kind 0 is a control frame in msgpack;
the kinds of data frames have layouts of their own, in which bodies are opaque slices.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from itertools import chain, pairwise
from operator import lt
from typing import Annotated, Final

import msgspec

from penstock.model.decoding import UNREADABLE
from penstock.model.errors import plainly
from penstock.model.limits import BODY_BYTES_MAX, PEER_NAME_CHARS_MAX
from penstock.model.names import is_client_name, is_plain_name
from penstock.protocol.control import COUNT_MAX, NAMES_MAX, PlainName, Version
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import (
    Carry,
    ControlFrame,
    Deliver,
    Forward,
    Frame,
    Handed,
    Horizons,
    KnowledgeKind,
    KnowledgeMessage,
    LogAnswer,
    Publish,
)

__all__ = ["FRAME_BYTES_MAX", "FrameReader", "decode_frame", "encode_frame"]

FRAME_BYTES_MAX: Final = BODY_BYTES_MAX + 1024 * 1024
"""Bytes in a frame: room for the largest message and the fields beside it. Senders split batches well below this."""

_CONTROL, _PUBLISH, _FORWARD, _DELIVER, _KNOWLEDGE, _HORIZONS, _LOG, _CARRY, _HANDED = range(9)
_LENGTH: Final = struct.Struct(">I")
_HEAD: Final = struct.Struct(">IB")
_PUBLISH_HEAD: Final = struct.Struct(">IBQHI")
_PUBLISH_ONE: Final = struct.Struct(">IBQHII")
"""Everything before the body in a frame that publishes one message to no pubend in particular."""
_FORWARD_HEAD: Final = struct.Struct(">IBHI")
_DELIVER_HEAD: Final = struct.Struct(">IBHI")
_DELIVER_ONE: Final = struct.Struct(">IBHIQHI")
_DELIVERY: Final = struct.Struct(">QHI")
"""Tick, number of subscriptions and length of one message in a delivery; these of all messages come first."""
_PUBLISH_CONTENT: Final = struct.Struct(">QHI")
_FORWARD_CONTENT: Final = struct.Struct(">HI")
_DELIVER_CONTENT: Final = struct.Struct(">HI")
_KNOWLEDGE_CONTENT: Final = struct.Struct(">BQQHII")
_HORIZONS_CONTENT: Final = struct.Struct(">HQQB")
_LOG_CONTENT: Final = struct.Struct(">QQQHHII?")
_CARRY_CONTENT: Final = struct.Struct(">QQQBHHBHI")
_HANDED_CONTENT: Final = struct.Struct(">QQQQHHBI")
_CARRY_FIRST: Final = 1
_CARRY_ASKS: Final = 2
_KINDS: Final = frozenset(KnowledgeKind)
_NAME_BYTES_MAX: Final = 4 * PEER_NAME_CHARS_MAX
_PUBLISHER_BYTES_MAX: Final = 32
_WHOLE: Final = 8
"""Flag in the first byte of a knowledge message, beside its kind: its list of versions is complete."""
_DATA_FRAMES: Final = (Publish, Carry, Forward, KnowledgeMessage, Horizons, LogAnswer, Handed)
_encode: Final = msgspec.msgpack.Encoder().encode
_Versions = Annotated[tuple[tuple[PlainName, Version, Version], ...], msgspec.Meta(max_length=NAMES_MAX)]
_decode_versions: Final = msgspec.msgpack.Decoder(_Versions).decode
_decode: Final[Callable[[memoryview], ControlFrame]] = msgspec.msgpack.Decoder(ControlFrame).decode


def encode_frame(frame: Frame) -> bytes:
    """Encodes a frame; a data frame caches the bytes."""
    if isinstance(frame, Deliver):
        if frame.encoded is None:
            frame.encoded = _encode_deliver(frame)
        return frame.encoded
    if isinstance(frame, _DATA_FRAMES):
        if frame.encoded is None:
            frame.encoded = _encode_data(frame)
        return frame.encoded
    content = _encode(frame)
    return _HEAD.pack(len(content) + 1, _CONTROL) + content


def decode_frame(kind: int, content: memoryview) -> Frame:
    """Decodes a frame of this kind; raises ``ProtocolError`` if the bytes are malformed."""
    try:
        if kind == _CONTROL:
            return _decode(content)
        if kind == _DELIVER:
            return _decode_deliver(content)
        if kind == _PUBLISH:
            return _decode_publish(content)
        if kind == _KNOWLEDGE:
            return _decode_knowledge(content)
        if kind == _HORIZONS:
            return _decode_horizons(content)
        if kind == _FORWARD:
            return _decode_forward(content)
        if kind == _LOG:
            return _decode_log(content)
        if kind == _CARRY:
            return _decode_carry(content)
        if kind == _HANDED:
            return _decode_handed(content)
    except (*UNREADABLE, struct.error) as error:
        raise ProtocolError(f"malformed frame of kind {kind}: {plainly(error)}") from None
    raise ProtocolError(f"unknown kind of frame {kind}")


class FrameReader:
    """Cuts a stream of bytes into frames."""

    __slots__ = ("_chunks", "_have", "_need", "bytes_max")

    def __init__(self, bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._chunks: list[bytes] = []
        self._have = 0
        self._need = 4
        """Bytes that must arrive before another frame can be complete."""
        self.bytes_max = bytes_max

    @property
    def unfinished_bytes(self) -> int:
        """Bytes received of a frame that is not complete yet."""
        return self._have

    def only_batch(self, data: bytes) -> Publish | None:
        """Decodes data that is exactly one batch of messages, as it is where publishers send now and then.

        None if it is anything else, or malformed: then ``feed`` decodes it, or says what is wrong with it.
        """
        length = len(data) - 4
        if self._have or not _PUBLISH_ONE.size <= length <= self.bytes_max:
            return None
        said, kind, first, name_bytes, count, body_bytes = _PUBLISH_ONE.unpack_from(data)
        if said != length or kind != _PUBLISH:
            return None
        if (
            not name_bytes
            and count == 1
            and body_bytes == len(data) - _PUBLISH_ONE.size <= BODY_BYTES_MAX
            and first <= COUNT_MAX
        ):
            return Publish(first, [data[_PUBLISH_ONE.size :]])
        try:
            return _decode_publish(memoryview(data)[5:])
        except (*UNREADABLE, struct.error, ProtocolError):
            return None

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yields the frames that this data completes; raises ``ProtocolError`` at the first malformed one."""
        # Chunks are joined only when a frame is complete, so a peer that sends a large one byte by byte costs little.
        self._chunks.append(data)
        self._have += len(data)
        if self._have < self._need:
            return
        buffer = data if len(self._chunks) == 1 else b"".join(self._chunks)
        view = memoryview(buffer)
        start, end = 0, len(buffer)
        self._need = 4
        try:
            while end - start >= 4:
                (length,) = _LENGTH.unpack_from(buffer, start)
                if not 1 <= length <= self.bytes_max:
                    raise ProtocolError(f"frame of {length} bytes is not in 1 .. {self.bytes_max}")
                following = start + 4 + length
                if following > end:
                    self._need = 4 + length
                    break
                frame = decode_frame(buffer[start + 4], view[start + 5 : following])
                start = following
                yield frame
        finally:
            self._chunks = [buffer[start:]] if start < end else []
            self._have = end - start


def _encode_data(frame: Publish | Carry | Forward | KnowledgeMessage | Horizons | LogAnswer | Handed) -> bytes:
    if isinstance(frame, Publish):
        return _encode_publish(frame)
    if isinstance(frame, Carry):
        return _encode_carry(frame)
    if isinstance(frame, KnowledgeMessage):
        return _encode_knowledge(frame)
    if isinstance(frame, Horizons):
        content = _HORIZONS_CONTENT.pack(frame.pubend, frame.tick, frame.present, frame.is_only) + frame.numbers
        return _HEAD.pack(len(content) + 1, _HORIZONS) + content
    if isinstance(frame, LogAnswer):
        return _encode_log(frame)
    if isinstance(frame, Handed):
        return _encode_handed(frame)
    return _encode_forward(frame)


def _encode_knowledge(frame: KnowledgeMessage) -> bytes:
    pubend, versions = frame.pubend.encode(), _encode(frame.versions) if frame.versions else b""
    count = len(frame.bodies)
    flags = frame.kind | (_WHOLE if frame.is_whole else 0)
    head = _KNOWLEDGE_CONTENT.pack(flags, frame.first, frame.last, len(pubend), len(versions), count)
    parts = [head, pubend, versions, struct.pack(f">{count}Q", *frame.ticks)]
    for body in frame.bodies:
        parts += (_LENGTH.pack(len(body)), body)
    return b"".join((_HEAD.pack(1 + sum(map(len, parts)), _KNOWLEDGE), *parts))


def _decode_knowledge(content: memoryview) -> KnowledgeMessage:
    flags, first, last, name_bytes, versions_bytes, count = _KNOWLEDGE_CONTENT.unpack_from(content)
    name_start = _KNOWLEDGE_CONTENT.size
    versions_start = name_start + name_bytes
    ticks_start = versions_start + versions_bytes
    if count * 12 > len(content) - ticks_start:
        raise ProtocolError(f"frame of {len(content)} bytes is too short for {count} messages")
    pubend = _plain_name(content, name_start, versions_start)
    ticks = list(struct.unpack_from(f">{count}Q", content, ticks_start))
    kind = flags & ~_WHOLE
    # Below the greatest count: whoever has all of it is at the tick after it, and must be able to report that tick.
    if kind not in _KINDS or not first <= last < COUNT_MAX or not _ascend(first, ticks, last):
        raise ProtocolError(f"knowledge of {pubend} has an unknown kind, or ticks out of order or out of range")
    bodies = _bodies(content, ticks_start + 8 * count, count)
    if sum(map(len, bodies)) > BODY_BYTES_MAX:
        # When it is forwarded, it may need room for more versions than it came with.
        raise ProtocolError(f"knowledge of {pubend} has more data than the largest message")
    return KnowledgeMessage(
        pubend,
        first,
        last,
        ticks,
        bodies,
        kind=KnowledgeKind(kind),
        versions=_decode_versions(content[versions_start:ticks_start]) if versions_bytes else (),
        is_whole=bool(flags & _WHOLE),
    )


def _ascend(first: int, ticks: list[int], last: int) -> bool:
    if not ticks:
        return True
    return first <= ticks[0] and ticks[-1] <= last and all(map(lt, ticks, ticks[1:]))


def _decode_horizons(content: memoryview) -> Horizons:
    pubend, tick, present, is_only = _HORIZONS_CONTENT.unpack_from(content)
    numbers = bytes(content[_HORIZONS_CONTENT.size :])
    if len(numbers) % 4 or is_only > 1 or max(tick, present) > COUNT_MAX:
        raise ProtocolError(f"horizons of {len(content)} bytes have a bad flag, tick or list of subscriptions")
    return Horizons(pubend, tick, numbers, is_only=bool(is_only), present=present)


def _encode_log(frame: LogAnswer) -> bytes:
    pubend, host, count = frame.pubend.encode(), frame.host.encode(), len(frame.bodies)
    # The last tick is sent plus one: it may lie before the first, which may be 0.
    numbers = (frame.number, frame.first, frame.last + 1)
    head = _LOG_CONTENT.pack(*numbers, len(pubend), len(host), len(frame.lost), count, frame.is_compacted)
    lost = struct.pack(f">{2 * len(frame.lost)}Q", *(tick for each in frame.lost for tick in each))
    ticks = struct.pack(f">{count}Q", *frame.ticks)
    lengths = struct.pack(f">{count}I", *map(len, frame.bodies))
    parts = [head, pubend, host, lost, ticks, lengths, *frame.bodies]
    return b"".join((_HEAD.pack(1 + sum(map(len, parts)), _LOG), *parts))


def _decode_log(content: memoryview) -> LogAnswer:
    number, first, behind, pubend_bytes, host_bytes, losses, count, is_compacted = _LOG_CONTENT.unpack_from(content)
    start = _LOG_CONTENT.size
    host_start = start + pubend_bytes
    lost_start = host_start + host_bytes
    ticks_start = lost_start + 16 * losses
    lengths_start = ticks_start + 8 * count
    bodies_start = lengths_start + 4 * count
    if bodies_start > len(content):
        raise ProtocolError(f"frame of {len(content)} bytes is too short for {count} messages")
    pubend = _plain_name(content, start, host_start)
    # There is no host on the last leg, to the client itself.
    host = _plain_name(content, host_start, lost_start) if host_bytes else ""
    edges = struct.unpack_from(f">{2 * losses}Q", content, lost_start)
    ticks = list(struct.unpack_from(f">{count}Q", content, ticks_start))
    # ``behind`` may equal ``first``: an empty range says that nothing is known yet.
    if (
        not first <= behind <= COUNT_MAX + 1
        or not _ascend(first, ticks, behind - 1)
        or not _are_ranges(first, edges, behind)
    ):
        raise ProtocolError(f"the log of {pubend} has ticks out of order or out of range")
    bodies = []
    data = bytes(content[bodies_start:])
    place = 0
    for length in struct.unpack_from(f">{count}I", content, lengths_start):
        bodies.append(data[place : place + length])
        place += length
    if place != len(data):
        raise ProtocolError(f"bodies of {place} bytes do not fill the {len(data)} of their frame")
    lost = tuple(zip(edges[::2], edges[1::2], strict=True))
    return LogAnswer(pubend, host, number, (first, behind - 1), ticks, bodies, lost, is_compacted=is_compacted)


def _are_ranges(first: int, edges: tuple[int, ...], behind: int) -> bool:
    # The edges alternate between the first and the last tick of a range.
    return not edges or (first <= edges[0] and edges[-1] < behind and all(low <= high for low, high in pairwise(edges)))


def _encode_deliver(frame: Deliver) -> bytes:
    # The size of a delivery is exact: it is the length of these bytes.
    ticks, length = frame.ticks, frame.size - 4
    if len(ticks) == 1:
        numbers, body = frame.numbers[0], frame.bodies[0]
        head = _DELIVER_ONE.pack(length, _DELIVER, frame.pubend, 1, ticks[0], len(numbers) // 4, len(body))
        return b"".join((head, numbers, body))
    pack = _DELIVERY.pack
    head = _DELIVER_HEAD.pack(length, _DELIVER, frame.pubend, len(ticks))
    if ticks and frame.numbers[-1] is frame.numbers[0] and frame.numbers.count(frame.numbers[0]) == len(ticks):
        # All messages are for the same subscriptions, as in a fan-out.
        same = frame.numbers[0]
        count = len(same) // 4
        heads = [pack(tick, count, len(body)) for tick, body in zip(ticks, frame.bodies, strict=True)]
        return b"".join((head, *heads, same, same.join(frame.bodies)))
    parts = [head]
    data: list[bytes] = []
    for tick, numbers, body in zip(ticks, frame.numbers, frame.bodies, strict=True):
        parts.append(pack(tick, len(numbers) // 4, len(body)))
        data += (numbers, body)
    return b"".join(parts + data)


def _encode_publish(frame: Publish) -> bytes:
    pubend, bodies = frame.pubend.encode(), frame.bodies
    data = _with_lengths(bodies)
    length = 15 + len(pubend) + len(data)
    return b"".join((_PUBLISH_HEAD.pack(length, _PUBLISH, frame.first, len(pubend), len(bodies)), pubend, data))


def _with_lengths(bodies: list[bytes]) -> bytes:
    # Each body after its length, without running Python for each.
    return b"".join(chain.from_iterable(zip(map(_LENGTH.pack, map(len, bodies)), bodies, strict=True)))


def _encode_carry(frame: Carry) -> bytes:
    pubend, host, client = frame.pubend.encode(), frame.host.encode(), frame.client.encode()
    flags = (_CARRY_FIRST if frame.is_first else 0) | (_CARRY_ASKS if frame.asks else 0)
    lengths = (len(pubend), len(host), len(frame.publisher), len(client))
    head = _CARRY_CONTENT.pack(frame.round, frame.after, frame.first, flags, *lengths, len(frame.bodies))
    parts = (head, pubend, host, frame.publisher, client, _with_lengths(frame.bodies))
    return b"".join((_HEAD.pack(1 + sum(map(len, parts)), _CARRY), *parts))


def _decode_carry(content: memoryview) -> Carry:
    number, after, first, flags, *lengths, count = _CARRY_CONTENT.unpack_from(content)
    pubend_bytes, host_bytes, publisher_bytes, client_bytes = lengths
    last = first + max(count, 1) - 1
    if max(number, last) > COUNT_MAX or after >= first or flags > _CARRY_FIRST | _CARRY_ASKS:
        raise ProtocolError(
            f"a carried batch has round {number}, numbers {after}, {first} or flags {flags} out of range"
        )
    host_start = _CARRY_CONTENT.size + pubend_bytes
    publisher_start = host_start + host_bytes
    client_start = publisher_start + publisher_bytes
    client_end = client_start + client_bytes
    pubend = _plain_name(content, _CARRY_CONTENT.size, host_start)
    host = _plain_name(content, host_start, publisher_start)
    publisher = bytes(content[publisher_start:client_start])
    client = _name(content, client_start, client_end)
    if len(publisher) > _PUBLISHER_BYTES_MAX or not is_client_name(client):
        raise ProtocolError("a carried batch has a publisher of too many bytes, or an invalid client name")
    bodies = _bodies(content, client_end, count)
    return Carry(
        pubend,
        host,
        publisher,
        client,
        (number, after, first),
        bodies,
        is_first=bool(flags & _CARRY_FIRST),
        asks=bool(flags & _CARRY_ASKS),
    )


def _encode_handed(frame: Handed) -> bytes:
    pubend, host, count = frame.pubend.encode(), frame.host.encode(), len(frame.bodies)
    counted = (frame.life, frame.series, frame.round, frame.sequence)
    head = _HANDED_CONTENT.pack(*counted, len(pubend), len(host), len(frame.member), count)
    numbers = struct.pack(f">{2 * count}Q", *frame.ticks, *frame.attempts)
    parts = (head, pubend, host, frame.member, numbers, _with_lengths(frame.bodies))
    return b"".join((_HEAD.pack(1 + sum(map(len, parts)), _HANDED), *parts))


def _decode_handed(content: memoryview) -> Handed:
    *counted, pubend_bytes, host_bytes, member_bytes, count = _HANDED_CONTENT.unpack_from(content)
    host_start = _HANDED_CONTENT.size + pubend_bytes
    member_start = host_start + host_bytes
    ticks_start = member_start + member_bytes
    bodies_start = ticks_start + 16 * count
    if bodies_start > len(content):
        raise ProtocolError(f"frame of {len(content)} bytes is too short for {count} messages")
    pubend = _plain_name(content, _HANDED_CONTENT.size, host_start)
    # There is no host on the last leg, to the client itself.
    host = _plain_name(content, host_start, member_start) if host_bytes else ""
    member = bytes(content[member_start:ticks_start])
    numbers = struct.unpack_from(f">{2 * count}Q", content, ticks_start)
    if max(*counted, *numbers) > COUNT_MAX or len(member) > _PUBLISHER_BYTES_MAX:
        raise ProtocolError(f"messages handed out by {pubend} have numbers or a member out of range")
    bodies = _bodies(content, bodies_start, count)
    life, series, round_, sequence = counted
    numbered = (life, series, round_, sequence)
    return Handed(pubend, host, member, numbered, [*numbers[:count]], [*numbers[count:]], bodies)


def _encode_forward(frame: Forward) -> bytes:
    pubend = frame.pubend.encode()
    count = len(frame.bodies)
    parts = [pubend, struct.pack(f">{count}Q", *frame.ticks)]
    for body in frame.bodies:
        parts += (_LENGTH.pack(len(body)), body)
    length = 7 + sum(map(len, parts))
    return _FORWARD_HEAD.pack(length, _FORWARD, len(pubend), count) + b"".join(parts)


def _decode_publish(content: memoryview) -> Publish:
    first, name_bytes, count = _PUBLISH_CONTENT.unpack_from(content)
    last = first + max(count, 1) - 1
    if last > COUNT_MAX:
        raise ProtocolError(f"message number {last} is over the limit of {COUNT_MAX}")
    name_end = 14 + name_bytes
    pubend = _name(content, 14, name_end) if name_bytes else ""
    return Publish(first, _bodies(content, name_end, count), pubend)


def _decode_forward(content: memoryview) -> Forward:
    name_bytes, count = _FORWARD_CONTENT.unpack_from(content)
    name_end = 6 + name_bytes
    pubend = _plain_name(content, 6, name_end, may_be_system=True)
    if count * 12 > len(content):
        raise ProtocolError(f"frame of {len(content)} bytes is too short for {count} messages")
    ticks = list(struct.unpack_from(f">{count}Q", content, name_end))
    if ticks and max(ticks) > COUNT_MAX:
        raise ProtocolError(f"ticks of {pubend} are over the limit of {COUNT_MAX}")
    return Forward(pubend, ticks, _bodies(content, name_end + 8 * count, count))


def _decode_deliver(content: memoryview) -> Deliver:
    pubend, count = _DELIVER_CONTENT.unpack_from(content)
    data_start = _DELIVER_CONTENT.size + _DELIVERY.size * count
    if data_start > len(content):
        raise ProtocolError(f"frame of {len(content)} bytes is too short for {count} messages")
    if not count:
        if data_start != len(content):
            raise ProtocolError(f"a delivery without messages has {len(content) - data_start} extra bytes")
        return Deliver(pubend, [], [], [])
    # Slices of bytes cost a third of slices of a view.
    data = bytes(content[data_start:])
    ticks, named, lengths = zip(*_DELIVERY.iter_unpack(content[_DELIVER_CONTENT.size : data_start]), strict=True)
    size = 4 * sum(named) + sum(lengths)
    if size != len(data):
        raise ProtocolError(f"messages of {size} bytes do not fill the {len(data)} of their frame")
    if max(ticks) > COUNT_MAX:
        raise ProtocolError(f"tick {max(ticks)} is over the limit of {COUNT_MAX}")
    numbers: list[bytes] = []
    bodies: list[bytes] = []
    place = 0
    before = b""
    for count_named, length in zip(named, lengths, strict=True):
        start = place + 4 * count_named
        mine = data[place:start]
        # Nearly always the same as before: then they are one object, which is quick to compare.
        if mine != before:
            before = mine
        numbers.append(before)
        place = start + length
        bodies.append(data[start:place])
    return Deliver(pubend, list(ticks), numbers, bodies)


def _name(content: memoryview, start: int, end: int) -> str:
    if end - start > _NAME_BYTES_MAX:
        raise ProtocolError(f"a name of {end - start} bytes is over the limit of {_NAME_BYTES_MAX}")
    return bytes(content[start:end]).decode()


def _plain_name(content: memoryview, start: int, end: int, *, may_be_system: bool = False) -> str:
    """Decodes the name of a broker or a pubend, or of a system stream where one is allowed."""
    name = _name(content, start, end)
    if not is_plain_name(name.removeprefix("$") if may_be_system else name):
        raise ProtocolError(f"{name!r} is not a valid broker or pubend name")
    return name


def _bodies(content: memoryview, start: int, count: int) -> list[bytes]:
    bodies: list[bytes] = []
    # Slices of bytes cost a third of slices of a view: so all of it is copied once more, unless it is one large body.
    if start > len(content):
        raise ProtocolError(f"frame of {len(content)} bytes is too short for its names")
    data = content[start:] if count == 1 else bytes(content[start:])
    start, end = 0, len(data)
    unpack = _LENGTH.unpack_from
    for _ in range(count):
        (length,) = unpack(data, start)
        start += 4
        following = start + length
        if following > end:
            raise ProtocolError(f"a body of {length} bytes does not fit its frame")
        if length > BODY_BYTES_MAX:
            raise ProtocolError(f"a body of {length:,} bytes is over the limit of {BODY_BYTES_MAX:,}")
        bodies.append(bytes(data[start:following]))
        start = following
    if start != end:
        raise ProtocolError(f"{end - start} extra bytes after {count} bodies")
    return bodies
