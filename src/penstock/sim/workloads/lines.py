"""Reads lines of text from files, plain or gzipped, and says clearly what is wrong with a file that cannot be read.

Lines come one at a time and are bounded in length, so that a file of any size costs little memory.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, cast

from penstock.model.errors import MisuseError

__all__ = ["LINE_CHARS_MAX", "InputFileError", "open_binary", "text_lines"]

LINE_CHARS_MAX: Final = 32 * 1024 * 1024
"""Most characters in one line; enough for the largest message the model allows."""
_GZIP_MAGIC: Final = b"\x1f\x8b"


class InputFileError(MisuseError):
    """A file given as input cannot be read, or its content breaks a rule; the text names the file and the line."""


def open_binary(path: str | Path) -> BinaryIO:
    """Open a file for reading, or say why that is impossible."""
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise InputFileError(f"{path}: cannot be read: {error.strerror}") from None


def text_lines(source: BinaryIO, name: str) -> Iterator[str]:
    """The lines of a stream, with their ends; gzip is recognised by its first bytes.

    The caller closes the stream, as only the caller knows when a reader that stops early is done.
    """
    line_number = 0
    try:
        with _as_text(source) as text:
            while line := text.readline(LINE_CHARS_MAX):
                line_number += 1
                if len(line) == LINE_CHARS_MAX:
                    raise InputFileError(f"{name}, line {line_number}: longer than {LINE_CHARS_MAX:,} characters")
                yield line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputFileError(f"{name}, after line {line_number}: damaged or incomplete gzip data: {error}") from None
    except UnicodeDecodeError as error:
        raise InputFileError(f"{name}, after line {line_number}: not UTF-8 text: {error.reason}") from None
    except OSError as error:
        raise InputFileError(f"{name}, after line {line_number}: cannot be read: {error.strerror or error}") from None


def _as_text(source: BinaryIO) -> io.TextIOWrapper:
    # Standard input under test is not a BufferedReader and cannot look ahead.
    buffered = source if isinstance(source, io.BufferedReader) else io.BufferedReader(cast("io.RawIOBase", source))
    content: BinaryIO = buffered
    if buffered.peek(2)[:2] == _GZIP_MAGIC:
        content = cast("BinaryIO", gzip.GzipFile(fileobj=buffered, mode="rb"))
    return io.TextIOWrapper(content, encoding="utf-8-sig", newline="")
