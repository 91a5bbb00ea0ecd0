"""Reads what ``penstock publish`` sends: a message from the command line, a stream from a file, or made-up quotes."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import threading
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from random import Random
from typing import Any, BinaryIO, Final

import msgspec

from penstock.cli.match_inputs import STANDARD_INPUT, Source
from penstock.model import Message
from penstock.model.errors import MisuseError
from penstock.model.values import AttributeValue
from penstock.sim.workloads import QuoteWorkload, load_quotes
from penstock.sim.workloads.lines import InputFileError, open_binary, text_lines

__all__ = [
    "as_they_come",
    "json_messages",
    "made_up_quotes",
    "parse_attributes",
    "parse_value",
    "quotes_of",
    "read_payload",
]

_NUMBER: Final = re.compile(r"[+-]?(\d+|(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][+-]?\d+)?)")
_WORDS: Final[dict[str, AttributeValue]] = {"true": True, "false": False, "null": None}
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode
_SYMBOLS: Final = 40
_AHEAD: Final = 1_000
"""Messages read ahead of publishing."""


def parse_attributes(texts: Iterable[str]) -> dict[str, AttributeValue]:
    """Attributes from texts ``name=value``."""
    attributes: dict[str, AttributeValue] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise MisuseError(f"attribute {text!r} is not of the form name=value")
        if name in attributes:
            raise MisuseError(f"attribute {name!r} is given twice")
        attributes[name] = parse_value(value)
    return attributes


def parse_value(text: str) -> AttributeValue:
    """A number, true, false or null if it looks like one; else text, without surrounding quotes.

    >>> [parse_value(text) for text in ("15", "1.5", "true", "YHOO", "'15'", "")]
    [15, 1.5, True, 'YHOO', '15', '']
    """
    if text in _WORDS:
        return _WORDS[text]
    if _NUMBER.fullmatch(text):
        return float(text) if set(text) & set(".eE") else int(text)
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text


def read_payload(text: str) -> bytes:
    """The payload that the text names: ``@FILE``, ``-`` for standard input, or the text itself."""
    if text == STANDARD_INPUT:
        return sys.stdin.buffer.read()
    if text.startswith("@"):
        with open_binary(text[1:]) as stream:
            try:
                return stream.read()
            except OSError as error:
                raise InputFileError(f"{text[1:]}: cannot be read: {error.strerror}") from None
    return text.encode(errors="surrogateescape")


def json_messages(source: Source) -> Iterator[Message]:
    """Read a message per line: a flat JSON object of attributes, or what ``penstock subscribe --json`` prints."""
    with _opened(source) as stream:
        for line_number, line in enumerate(text_lines(stream, source.name), start=1):
            if not line.strip():
                continue
            try:
                yield _message(_decode(line))
            except msgspec.DecodeError as error:
                raise InputFileError(f"{source.name}, line {line_number}: not a JSON object: {error}") from None
            except MisuseError as error:
                raise InputFileError(f"{source.name}, line {line_number}: {error}") from None


async def as_they_come(messages: Iterable[Message]) -> AsyncIterator[Message]:
    """Read messages in a thread, so that a slow source does not block the event loop and its heartbeats.

    The thread is not joined at the end: only the writer can end a read from a terminal or a pipe.
    """
    loop, room = asyncio.get_running_loop(), threading.Semaphore(_AHEAD)
    queue: asyncio.Queue[Message | Exception | None] = asyncio.Queue()

    def read() -> None:
        end: Exception | None = None
        try:
            for message in messages:
                room.acquire()
                loop.call_soon_threadsafe(queue.put_nowait, message)
        except Exception as error:  # noqa: BLE001 - it is raised where the messages are used
            end = error
        # The loop may have been closed meanwhile.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(queue.put_nowait, end)

    threading.Thread(target=read, name="reader of messages", daemon=True).start()
    while (item := await queue.get()) is not None:
        if isinstance(item, Exception):
            raise item
        room.release()
        yield item


def quotes_of(path: str) -> tuple[int, Iterator[Message]]:
    """The number of quotes in a CSV file, and the quotes."""
    quotes = load_quotes(path)
    return len(quotes), map(Message, quotes)


def made_up_quotes(count: int, seed: int) -> Iterator[Message]:
    """Quotes of a market made up from the seed."""
    return map(Message, QuoteWorkload(Random(seed), _SYMBOLS).publications(count))


def _opened(source: Source) -> BinaryIO:
    if source.path != STANDARD_INPUT:
        return source.open()
    try:
        # A separate file object: at exit Python takes the lock of its standard input, which a reader may hold.
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    except OSError:
        return source.open()


def _message(line: dict[str, Any]) -> Message:
    attributes = line.get("attributes")
    # Attributes do not nest: a line with an object named attributes is a whole message.
    if not isinstance(attributes, dict):
        return Message(line)
    return Message(attributes, _payload(line), line.get("content_type", ""))


def _payload(line: dict[str, Any]) -> bytes:
    try:
        if "payload_base64" in line:
            return b64decode(line["payload_base64"], validate=True)
        return str(line.get("payload", "")).encode()
    except (Base64Error, TypeError, ValueError) as error:
        raise MisuseError(f"the payload cannot be read: {error}") from None
