"""``penstock store backup`` and ``restore``: a copy of a store, made while its broker runs or not, and back again."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlencode

import typer

from penstock.cli.admin import AdminError, call_admin
from penstock.cli.console import console
from penstock.cli.progress import ProgressReporter
from penstock.live.config import load_overlay
from penstock.live.overlay import BrokerPlace, Overlay
from penstock.live.store.backups import Note, Unfinished, copy_closed, finish, unfinished
from penstock.live.store.errors import BackupError, StoreLockedError
from penstock.live.store.proving import Proof
from penstock.live.store.restoring import Restored, Restoring
from penstock.live.store.restoring import restore as put_back
from penstock.model.errors import MisuseError
from penstock.model.tick import format_tick

__all__ = ["BACKUP_EXAMPLES", "RESTORE_EXAMPLES", "AsJson", "Folder", "Meter", "backup", "pubend_rows", "restore"]

BACKUP_EXAMPLES: Final = """
If the broker runs, it copies its store itself, a bit at a time between its commits, and has to be told where: so name
the overlay file with `--config`, and run this on the broker's machine as its user or as root. The backup has everything
that was acknowledged before the last step of the copy. TARGET appears when the copy was read whole and is durable;
until then it is called `TARGET.unfinished`.

Examples:

- `penstock store backup data/pb1 /backups/pb1-monday`
- `penstock store backup data/pb1 /backups/pb1-monday --config overlay.toml`
"""
RESTORE_EXAMPLES: Final = """
The backup is only read. It is copied, the copy is checked whole, and only then takes its place in FOLDER; with
`--force` a store that is there is put aside in a folder `replaced-…`. A plain copy of a data folder is taken as well,
if it was made with the broker stopped.

A backup is older than what the overlay has seen. When its broker starts, the other brokers tell it up to which ticks
they have heard of its pubends, and it tells subscribers that the messages since the backup are lost. What nobody else
has heard of is not told.

Examples:

- `penstock store restore /backups/pb1-monday data/pb1`
- `penstock store restore /backups/pb1-monday data/pb1 --force`
"""
_POLL_S: Final = 0.2
_SILENT_S_MAX: Final = 10.0
"""How long a broker may fail to answer before its backup counts as failed."""
_WITHOUT: Final = "stop the broker to back up its store, or give it an admin_port"
_COLUMNS: Final = {
    "pubend": "left",
    "messages": "right",
    "bytes": "right",
    "last tick": "left",
    "damaged": "right",
}
_REPORTS: Final = 200
"""How often a stage reports its progress, about."""

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The data folder of the broker.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")]


class Meter:
    """Reports how far one stage is, given how much is done and how much there is."""

    def __init__(self, reporter: ProgressReporter, title: str) -> None:
        self._reporter, self._title = reporter, title
        self._total = -1
        self._shown = 0

    def __call__(self, done: int, total: int) -> None:
        """Show it, unless it is about what is shown already."""
        if total != self._total:
            self._begin(total)
        if done - self._shown > total // _REPORTS:
            self._reporter.advance(done - self._shown)
            self._shown = done

    def _begin(self, total: int) -> None:
        if self._total < 0:
            self._reporter.stage(self._title, total)
        self._total = total


def backup(
    folder: Folder,
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="The folder to make for the backup.")],
    *,
    config: Annotated[
        Path | None, typer.Option(metavar="OVERLAY.TOML", help="The overlay file; needed if the broker runs.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Back up a store, also while its broker runs, and check the copy."""
    folder, target = folder.resolve(), target.resolve()
    if target.is_relative_to(folder):
        raise MisuseError(f"{target} is inside of the store: a backup must be elsewhere, best on another disk")
    if not folder.is_dir():
        raise MisuseError(f"there is no folder {folder}")
    with ProgressReporter() as reporter, unfinished(target, like=folder) as made:
        _copy(folder, made, config, Meter(reporter, "copying"))
        now_ms = time.time_ns() // 1_000_000
        proof, note = finish(made, now_ms=now_ms, on_read=Meter(reporter, "checking the copy"))
    if as_json:
        console.json({"target": str(target), **_as_dict(proof, note, note.damaged)})
    else:
        console.table(f"backup of broker {proof.broker} of overlay {proof.overlay}", _COLUMNS, pubend_rows(proof))
        for damaged in note.damaged:
            console.line(f"damaged in the store, and so in the backup: {damaged}")
        console.line(f"{note.messages:,} messages, checked, in {target}")


def restore(
    source: Annotated[Path, typer.Argument(metavar="BACKUP", help="The folder of the backup.")],
    folder: Folder,
    *,
    force: Annotated[bool, typer.Option("--force", help="Put a store aside that is in FOLDER.")] = False,
    damaged: Annotated[bool, typer.Option("--damaged", help="Restore a backup even if parts are damaged.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check a backup whole, and put it in the place of a store whose broker does not run."""
    folder, source = folder.resolve(), source.resolve()
    if source == folder:
        raise MisuseError(f"{source} cannot be restored to itself")
    with ProgressReporter() as reporter:
        work = Restoring(
            source,
            folder,
            stamp=datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ"),
            may_replace=force,
            may_be_damaged=damaged,
            on_copy=Meter(reporter, "copying"),
            on_read=Meter(reporter, "checking the copy"),
        )
        done = put_back(work)
    if as_json:
        aside = None if done.aside is None else str(done.aside)
        console.json({"folder": str(folder), "aside": aside, **_as_dict(done.proof, done.note, done.damaged)})
    else:
        _print_restored(done, folder)


def _print_restored(done: Restored, folder: Path) -> None:
    proof = done.proof
    console.table(f"broker {proof.broker} of overlay {proof.overlay}", _COLUMNS, pubend_rows(proof))
    for damaged in done.damaged:
        console.line(f"damaged: {damaged}")
    made = f"a backup of {_shown_time(done.note.made_ms)}" if done.note is not None else "a plain copy of a folder"
    console.line(f"{proof.messages:,} messages, checked, are in {folder}, from {made}")
    if done.aside is not None:
        console.line(f"the former store is in {done.aside}")
    console.line("what was acknowledged later is not in it: subscribers are told as far as other brokers remember it")


def _copy(folder: Path, made: Unfinished, config: Path | None, meter: Meter) -> None:
    """Copy the store ourselves if we can, or have its broker do it."""
    try:
        copy_closed(folder, made.folder, lambda left, total: meter(total - left, total))
    except StoreLockedError:
        if config is None:
            raise MisuseError(
                f"store {folder} is in use: name the overlay file with --config, and its broker makes the backup"
            ) from None
        overlay = load_overlay(config)
        _Asked(overlay, _place_of(overlay, folder)).copy(made.folder, meter)


def _place_of(overlay: Overlay, folder: Path) -> BrokerPlace:
    places = [each for each in overlay.brokers.values() if each.data is not None and each.data.resolve() == folder]
    if len(places) != 1:
        raise MisuseError(f"the overlay file names {len(places) or 'no'} brokers with the data folder {folder}")
    return places[0]


class _Asked:
    """A broker that is asked to back up its store."""

    def __init__(self, overlay: Overlay, place: BrokerPlace) -> None:
        self._overlay, self._place = overlay, place

    def copy(self, folder: Path, meter: Callable[[int, int], None]) -> None:
        """Wait until the copy is complete; the broker gives it up if we are interrupted, or gone."""
        told = self._ask("POST", f"/backup?{urlencode({'to': str(folder)})}")
        try:
            while told["result"] == "copying":
                meter(int(told["pages_done"]), int(told["pages_total"]))
                time.sleep(_POLL_S)
                told = self._ask_again(folder)
        except BaseException:
            with suppress(AdminError):
                self._ask("DELETE", "/backup")
            raise
        if told["result"] != "done":
            raise BackupError(f"broker {self._place.name} could not back up its store: {told['reason']}")

    def _ask(self, method: str, target: str) -> dict[str, Any]:
        return call_admin(self._overlay, self._place, method, target, without=_WITHOUT)

    def _ask_again(self, folder: Path) -> dict[str, Any]:
        """How far it is; a broker that is busy may be silent for a while."""
        give_up_s = time.monotonic() + _SILENT_S_MAX
        while True:
            try:
                told = self._ask("GET", "/backup")
            except AdminError:
                if time.monotonic() > give_up_s:
                    raise
                time.sleep(_POLL_S)
                continue
            if told.get("folder", str(folder)) != str(folder):
                raise BackupError(f"broker {self._place.name} has begun another backup, into {told['folder']}")
            return told


def _as_dict(proof: Proof, note: Note | None, damaged: list[str]) -> dict[str, Any]:
    return {
        "overlay": proof.overlay,
        "broker": proof.broker,
        "made": None if note is None else _shown_time(note.made_ms),
        "commits": proof.totals.commits,
        "messages": proof.messages,
        "damaged": damaged,
        "pubends": {
            name: {
                "messages": each.messages,
                "bytes": each.size_bytes,
                "last_tick": each.last_tick,
                "lease": each.lease,
                "damaged": [list(ticks) for ticks in each.damaged],
            }
            for name, each in proof.pubends.items()
        },
    }


def pubend_rows(proof: Proof) -> Any:
    """A row of the table for each pubend."""
    for name, each in proof.pubends.items():
        last = "" if each.last_tick is None else format_tick(each.last_tick)
        yield name, f"{each.messages:,}", f"{each.size_bytes:,}", last, str(len(each.damaged) or "")


def _shown_time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
