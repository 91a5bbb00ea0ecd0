"""Opens the two ends of a copy, folders or databases, and takes care that no broker ever opens half a copy.

A folder is made under a temporary name. A database gets a mark first, which brokers refuse, and a copy that begins anew
finds it and drops what is there. A store from which single pubends are copied bears a mark of each before its copy can
be used: nobody serves it there any more, and it is copied to no other place by mistake.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.broker.durable import SetValue
from penstock.live.overlay import Home, is_url
from penstock.live.store.backups import refuse_inside, sync, unfinished
from penstock.live.store.errors import StoreRefusedError
from penstock.live.store.inspecting import FILE_NAME, inspect
from penstock.live.store.log import LogStore
from penstock.live.store.proving import check_found
from penstock.live.store.witness import WITNESS_NAME, Witness
from penstock.live.stores import COPYING, MOVED, MovableStore, OnWait
from penstock.live.transfer import Choice, CopyDiffersError, OnCopy, StoreFigures, Transfer, survey

if TYPE_CHECKING:
    from penstock.live.postgres.movable import MovableDatabasePlace

__all__ = ["Copied", "CopyEnd", "CopyOrder", "copy_store"]


@dataclass(slots=True, frozen=True)
class CopyEnd:
    """One end of a copy: a folder, or a store in a database."""

    at: str
    """A path, or a url of a database; the url may have a password."""
    overlay: str = ""
    broker: str = ""
    """Whose store it is; of a folder, only if that is to be checked, or made."""

    @property
    def is_database(self) -> bool:
        """Whether it is in a database."""
        return is_url(self.at)

    @property
    def owner(self) -> tuple[str, str]:
        """Overlay and broker."""
        return self.overlay, self.broker

    @property
    def shown(self) -> str:
        """Where it is, for people; without secrets."""
        return self.database().shown if self.is_database else self.at

    def database(self) -> MovableDatabasePlace:
        """The store in the database."""
        # Only where it is used: the driver is an extra.
        from penstock.live.postgres.movable import MovableDatabasePlace

        return MovableDatabasePlace(self.at, self.overlay, self.broker)


@dataclass(slots=True, frozen=True)
class CopyOrder:
    """What to copy, and where."""

    source: CopyEnd
    target: CopyEnd
    pubend: str = ""
    """The only pubend to copy; empty for all that the target can have."""
    is_again: bool = False
    """Whether to copy also what was copied to another place before: that copy must not be used."""
    on_copy: OnCopy = lambda _done, _total: None
    on_compare: OnCopy = lambda _done, _total: None
    on_wait: OnWait = lambda _reason: None
    """Told why a database takes long."""


@dataclass(slots=True, frozen=True)
class Copied:
    """The result of a copy, which was compared."""

    source: CopyEnd
    target: CopyEnd
    figures: StoreFigures
    is_whole: bool
    """Whether histories for traces and the like were copied, too: they stay with the broker that recorded them."""


def copy_store(order: CopyOrder) -> Copied:
    """Copy a store whose broker does not run into a new place, and compare the two.

    Raises ``StoreRefusedError`` if that may not be, and ``CopyDiffersError`` if the copy is not the same.
    """
    with _opened_source(order) as (owner, source):
        target_place = _completed(order, owner)
        choice = _choice(order, owner, target_place, source)
        if choice.pubends and not order.is_again:
            _check_not_moved(source, target_place, choice)
        if target_place.is_database:
            figures = _into_database(order, target_place, source, choice)
        else:
            figures = _into_folder(order, target_place, source, choice)
    return Copied(
        replace(order.source, overlay=owner[0], broker=owner[1]), target_place, figures, is_whole=choice.has_kept
    )


@contextmanager
def _opened_source(order: CopyOrder) -> Iterator[tuple[tuple[str, str], MovableStore]]:
    """The store to copy, with its owner; nobody else can use it meanwhile."""
    place = order.source
    if place.is_database:
        if not all(place.owner):
            raise StoreRefusedError("a database may have many stores: say whose with --overlay and --broker")
        database = place.database()
        database.check(is_source=True)
        owner = place.owner
        opened: MovableStore = database.open(order.on_wait)
    else:
        owner = _owner_of(Path(place.at))
        for option, named, found in zip(("overlay", "broker"), place.owner, owner, strict=True):
            if named and named != found:
                raise StoreRefusedError(f"store {place.at} is of {option} {found!r}, not of {named!r}")
        # Without a reserve: a source may be on a full disk.
        opened = LogStore.open(Path(place.at), overlay=owner[0], broker=owner[1], reserve_bytes=0)
    with closing(opened) as store:
        if COPYING in store.recovered().values:
            raise StoreRefusedError(f"a copy into {place.shown} was not finished: there is nothing to copy from")
        yield owner, store


def _owner_of(folder: Path) -> tuple[str, str]:
    try:
        # Not is_dir(), which does not say whether we may read it.
        next(folder.iterdir(), None)
    except (FileNotFoundError, NotADirectoryError):
        raise StoreRefusedError(f"there is no folder {folder}") from None
    except OSError as error:
        raise StoreRefusedError(f"{folder} cannot be read: {error.strerror or error}") from None
    witness = Witness(folder)
    try:
        return check_found(folder, inspect(folder, witness.statement))
    finally:
        witness.withdraw()


def _completed(order: CopyOrder, owner: tuple[str, str]) -> CopyEnd:
    """The target with the names that were left out: those of the source, or the home of the pubend."""
    overlay = order.target.overlay or owner[0]
    if overlay != owner[0]:
        raise StoreRefusedError(f"the store is of overlay {owner[0]!r}, and a copy cannot be of {overlay!r}")
    usual = Home.name_for(order.pubend) if order.pubend and order.target.is_database else owner[1]
    return replace(order.target, overlay=overlay, broker=order.target.broker or usual)


def _choice(order: CopyOrder, owner: tuple[str, str], target: CopyEnd, source: MovableStore) -> Choice:
    """What the target can have: another broker gets pubends, but nothing of the former broker's own."""
    pubends = list(source.recovered().pubends)
    if order.pubend:
        return Choice((order.pubend,))
    if target.broker == owner[1]:
        return Choice(keeps_moved=not order.is_again)
    if len(pubends) != 1:
        raise StoreRefusedError(
            f"broker {owner[1]} has several pubends ({', '.join(pubends) or 'none'}), and {target.broker} is another "
            "broker: say with --pubend which of them moves"
        )
    return Choice(tuple(pubends))


def _name_of(place: CopyEnd) -> str:
    """The store in a place, as the source of a copy remembers it."""
    return f"{place.shown}, broker {place.broker}"


def _check_not_moved(source: MovableStore, target: CopyEnd, choice: Choice) -> None:
    """Raises ``StoreRefusedError`` if a pubend was copied to another place before: it would be served twice."""
    values = source.recovered().values
    for pubend in choice.pubends:
        moved = values.get(f"{MOVED}/{pubend}")
        if moved is not None and moved.decode() != _name_of(target):
            raise StoreRefusedError(
                f"pubend {pubend} was copied to {moved.decode()} before, and is served there: copy that, or say "
                "--again if that copy was never used, and never will be"
            )


def _into_folder(order: CopyOrder, place: CopyEnd, source: MovableStore, choice: Choice) -> StoreFigures:
    folder = Path(place.at)
    if not order.source.is_database:
        refuse_inside(folder, Path(order.source.at))
    with unfinished(folder, like=folder.parent if folder.parent.exists() else None) as made:
        target = LogStore.open(made.folder, overlay=place.overlay, broker=place.broker, reserve_bytes=0)
        with closing(target):
            # It is synced as a whole before it gets its name.
            target.leave_out_syncs()
            figures = _fill(order, source, target, choice, place)
        for name in (FILE_NAME, WITNESS_NAME):
            sync(made.folder / name)
        made.rename()
    return figures


def _into_database(order: CopyOrder, place: CopyEnd, source: MovableStore, choice: Choice) -> StoreFigures:
    database = place.database()
    database.check(is_source=False)
    with closing(database.open(order.on_wait)) as target:
        recovered = target.recovered()
        is_begun = COPYING in recovered.values
        if not is_begun and (recovered.pubends or recovered.values or recovered.kept):
            raise StoreRefusedError(
                f"the store of broker {place.broker!r} of overlay {place.overlay!r} in {place.shown} is not empty"
            )
        # With its mark, also if there is nothing to drop: a broker that comes in between must not begin to use it.
        target.erase()
    # Opened anew: what was erased must not be remembered.
    with closing(database.open(order.on_wait)) as target:
        return _fill(order, source, target, choice, place)


def _fill(order: CopyOrder, source: MovableStore, target: MovableStore, choice: Choice, place: CopyEnd) -> StoreFigures:
    transfer = Transfer(source, target, choice, order.on_copy)
    wanted = transfer.run()
    found = survey(target, choice, order.on_compare)
    found.damaged = wanted.damaged
    if found != wanted:
        raise CopyDiffersError(f"the copy differs from the store: {_difference(wanted, found)}; nothing may use it")
    if choice.pubends:
        # Before anybody can use the copy. If this process ends in between, the same copy can be made again.
        where = _name_of(place).encode()
        source.commit([SetValue(f"{MOVED}/{pubend}", where) for pubend in choice.pubends])
    transfer.complete()
    return wanted


def _difference(wanted: StoreFigures, found: StoreFigures) -> str:
    for name, pubend in wanted.pubends.items():
        if found.pubends.get(name) != pubend:
            return f"pubend {name} is {found.pubends.get(name)} instead of {pubend}"
    return f"it has {found.values} named values and {found.kept} records instead of {wanted.values} and {wanted.kept}"
