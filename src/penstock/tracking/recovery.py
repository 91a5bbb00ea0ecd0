"""Restores the tracking state that an earlier run of the broker stored."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.tracking.aliases import AliasBook
from penstock.tracking.attachment import AttachmentMap
from penstock.tracking.recorder import Recorder
from penstock.tracking.records import (
    AliasRecord,
    AttachmentRecord,
    DamagedRecordError,
    Keep,
    MarkRecord,
    SinceRecord,
    decode_record,
)
from penstock.tracking.strategy import MARK

__all__ = ["recover"]


def recover(
    values: Mapping[str, bytes],
    recorder: Recorder,
    attachments: AttachmentMap,
    aliases: AliasBook,
    *,
    now_ms: int,
) -> tuple[list[str], list[Keep]]:
    """Load all values that tracking stored, by name; returns the names of damaged ones, and what to store now.

    What the recorder has to store comes from its `take`. Attachments that an earlier run left open end now.
    """
    damaged = []
    for name, value in values.items():
        try:
            _load(name, value, attachments, aliases)
        except DamagedRecordError:
            damaged.append(name)
            _doubt(name, attachments, aliases, now_ms)
    damaged += recorder.load(values, floor_ms=_floor_ms(values, attachments), now_ms=now_ms)
    return damaged, attachments.end_earlier_life(now_ms=now_ms)


def _load(name: str, value: bytes, attachments: AttachmentMap, aliases: AliasBook) -> None:
    if name.startswith("attachment/"):
        attachments.load(decode_record(value, AttachmentRecord))
    elif name == "since/attachment":
        attachments.load_since(decode_record(value, SinceRecord))
    elif name.startswith("alias/"):
        aliases.load(decode_record(value, AliasRecord))
    elif name == "since/alias":
        aliases.load_since(decode_record(value, SinceRecord))


def _doubt(name: str, attachments: AttachmentMap, aliases: AliasBook, now_ms: int) -> None:
    """Distrust everything before now: the damaged record may be of any time."""
    is_attachment = name.startswith("attachment/") or name == "since/attachment"
    (attachments if is_attachment else aliases).load_since(SinceRecord(now_ms))


def _floor_ms(values: Mapping[str, bytes], attachments: AttachmentMap) -> int | None:
    """How far back subscribers that came after the mark began: a crash may have lost what they received."""
    try:
        mark = decode_record(values[MARK], MarkRecord)
    except (KeyError, DamagedRecordError):
        return None
    return attachments.earliest_start_ms(attached_since_ms=mark.stored_ms)
