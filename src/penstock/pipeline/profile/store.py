"""Saves and loads a profile: Parquet files that anyone can read, and a summary that a plan starts from."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from penstock.model.errors import MisuseError
from penstock.pipeline.folders import read_folder_json, read_folder_table, write_folder
from penstock.pipeline.lake.errors import LakeError, LakeMismatchError
from penstock.pipeline.lake.files import files_at
from penstock.pipeline.profile.model import AttributeUse, Profile, ProfiledSubscription, Window

__all__ = ["FORMAT", "default_folder", "load_profile", "profile_summary", "save_profile"]

FORMAT: Final = 1
_SUMMARY: Final = "profile.json"
_SHOWN: Final = 20


def default_folder(lake: str) -> Path:
    """The default folder of a lake's profile, hidden from readers of the lake's tables."""
    root = files_at(lake).root
    if not root.is_dir():
        raise MisuseError(f"there is no lake at {lake!r}: no such folder")
    return root / "_profile"


def save_profile(profile: Profile, folder: Path) -> Path:
    """Write a profile, replacing an earlier one."""
    tables = {
        "selectors": _selectors(profile),
        "subscriptions": _subscriptions(profile),
        "overlaps": _overlaps(profile),
        "brokers": _columns([asdict(each) for each in profile.brokers]),
        "attributes": _columns([asdict(each) for each in profile.attributes]),
    }
    summary = msgspec.json.format(msgspec.json.encode(profile_summary(profile)), indent=1).decode()
    return write_folder(folder, tables, {_SUMMARY: summary})


def load_profile(folder: Path) -> Profile:
    """Load a saved profile; raises ``MisuseError`` if there is none, or one of another version."""
    summary = read_folder_json(folder, _SUMMARY, "profile; make one with: penstock pipeline profile LAKE")
    if summary.get("format") != FORMAT:
        raise LakeMismatchError(
            f"the profile in {folder} is of format {summary.get('format')}; this Penstock reads {FORMAT}: make it anew"
        )
    selectors = read_folder_table(folder, "selectors")
    subscriptions = read_folder_table(folder, "subscriptions")
    attributes = read_folder_table(folder, "attributes")
    names = ("broker", "number", "subscriber", "is_durable", "selector_number")
    try:
        bits = [np.frombuffer(row, np.uint64) for row in selectors["bits"]]
        return Profile(
            summary["lake"],
            Window(**summary["window"]),
            selectors["selector"],
            np.array(selectors["messages"], np.int64),
            np.array(selectors["bytes"], np.int64),
            np.stack(bits) if bits else np.zeros((0, 0), np.uint64),
            [ProfiledSubscription(*row) for row in zip(*(subscriptions[name] for name in names), strict=True)],
            [AttributeUse(*row) for row in zip(*attributes.values(), strict=True)],
            summary["unrecorded"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise LakeError(f"the profile in {folder} is damaged: {error!r}") from None


def profile_summary(profile: Profile) -> dict[str, Any]:
    """Summarise a profile, as it is printed and saved."""
    window = profile.window
    busiest = sorted(range(len(profile.selectors)), key=lambda number: (-int(profile.bytes[number]), number))
    return {
        "format": FORMAT,
        "lake": profile.lake,
        "window": asdict(window),
        "seconds": window.seconds,
        "messages_per_s": window.rate,
        "subscriptions": len(profile.subscriptions),
        "selectors": len(profile.selectors),
        "unrecorded": profile.unrecorded,
        "silent": sum(not profile.messages[each.selector] for each in profile.subscriptions),
        "brokers": [asdict(each) for each in profile.brokers],
        "busiest": [
            {
                "selector": profile.selectors[number],
                "subscriptions": sum(each.selector == number for each in profile.subscriptions),
                "messages_per_s": profile.rate(number),
                "bytes_per_s": profile.bytes_rate(number),
            }
            for number in busiest[:_SHOWN]
        ],
        "attributes": [asdict(each) for each in profile.attributes[:_SHOWN]],
    }


def _selectors(profile: Profile) -> dict[str, Any]:
    count = len(profile.selectors)
    return {
        "number": list(range(count)),
        "selector": list(profile.selectors),
        "messages": profile.messages,
        "bytes": profile.bytes,
        "messages_per_s": [profile.rate(number) for number in range(count)],
        "bytes_per_s": [profile.bytes_rate(number) for number in range(count)],
        "bits": [row.tobytes() for row in profile.bits],
    }


def _subscriptions(profile: Profile) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for broker, some in profile.by_broker.items():
        covering, alone = profile.covering_of(broker), profile.alone_rates(broker)
        counts: dict[int, int] = {}
        for each in some:
            counts[each.selector] = counts.get(each.selector, 0) + 1
        for each in some:
            text = profile.selectors[each.selector]
            rows.append(
                {
                    "broker": broker,
                    "number": each.number,
                    "subscriber": each.subscriber,
                    "is_durable": each.is_durable,
                    "selector_number": each.selector,
                    "selector": text,
                    "messages_per_s": profile.rate(each.selector),
                    "bytes_per_s": profile.bytes_rate(each.selector),
                    "alone_per_s": alone[each.selector] if counts[each.selector] == 1 else 0.0,
                    "is_covering": text in covering,
                }
            )
    return _columns(rows)


def _overlaps(profile: Profile) -> dict[str, Any]:
    rows = [
        (number, other, common, common * profile.window.rate / profile.window.sampled)
        for number, others in sorted(profile.common.items())
        for other, common in others
    ]
    names = ("selector_number", "other_number", "samples", "messages_per_s")
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def _columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else {})}
