"""Works out what a changed overlay file means for a running broker: the differences, and which of them need a restart.

Everything is checked before anything is changed: a broker applies a file as a whole, or not at all. Secrets are
compared, but never shown.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Final

from penstock.broker.neighbours.membership import needs_restart
from penstock.broker.settings import SettingsError
from penstock.live.config import load_overlay
from penstock.live.errors import ConfigError, RestartError, TlsError
from penstock.live.overlay import BrokerPlace, Home, Overlay
from penstock.live.tls import TlsFiles, client_context, reload_files, server_context

__all__ = ["OverlayChange", "TlsState", "change_between", "change_for", "read_again"]

_TOGETHER: Final = "for which all its candidates must be stopped before one of them starts with the new file"


@dataclass(slots=True, frozen=True)
class OverlayChange:
    """The difference between two overlays; false if there is none."""

    brokers_added: tuple[str, ...] = ()
    brokers_removed: tuple[str, ...] = ()
    brokers_changed: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Names of brokers, each with the fields that differ."""
    links_added: tuple[tuple[str, str], ...] = ()
    links_removed: tuple[tuple[str, str], ...] = ()
    pubends_added: tuple[str, ...] = ()
    """Pubends with candidates, as are those below; the others are settings of their brokers."""
    pubends_removed: tuple[str, ...] = ()
    pubends_changed: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Names of pubends, each with what differs."""
    shared: tuple[str, ...] = ()
    """Changed settings that all brokers share: security, access, files of TLS."""

    def __bool__(self) -> bool:
        return any(getattr(self, each.name) for each in fields(self))

    def lines(self) -> list[str]:
        """The changes, for people."""
        return [
            *(f"broker {name} added" for name in self.brokers_added),
            *(f"broker {name} removed" for name in self.brokers_removed),
            *(f"broker {name} changed: {', '.join(what)}" for name, what in self.brokers_changed),
            *(f"link {left} to {right} added" for left, right in self.links_added),
            *(f"link {left} to {right} removed" for left, right in self.links_removed),
            *(f"pubend {name} with candidates added" for name in self.pubends_added),
            *(f"pubend {name} with candidates removed" for name in self.pubends_removed),
            *(f"pubend {name} changed: {', '.join(what)}" for name, what in self.pubends_changed),
            *(f"{what} changed" for what in self.shared),
        ]

    def as_dict(self) -> dict[str, object]:
        """The changes, for programs."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return values | {
            "brokers_changed": dict(self.brokers_changed),
            "pubends_changed": dict(self.pubends_changed),
        }


class TlsState:
    """The TLS contexts of a node, and a digest of the files they were made from."""

    def __init__(self, files: TlsFiles | None, *, listens: bool = True) -> None:
        self.serving = server_context(files) if files is not None and listens else None
        self.dialling = client_context(files, checks_host=False) if files is not None else None
        self._digest = _digest(files)

    def is_news(self, files: TlsFiles | None) -> bool:
        """Whether the contents of the files have changed; raises ``TlsError`` if they cannot be used."""
        TlsState(files)
        return _digest(files) != self._digest

    def reload(self, files: TlsFiles | None) -> None:
        """Load the files again, for connections made from now on."""
        contexts: list[ssl.SSLContext | None] = [self.serving, self.dialling]
        for context in contexts:
            if context is not None and files is not None:
                reload_files(context, files)
        self._digest = _digest(files)


def read_again(overlay: Overlay, digest: str = "") -> Overlay:
    """Read the overlay's file again; raises ``ConfigError`` if it does not have that digest."""
    if overlay.source is None:
        raise ConfigError(f"overlay {overlay.name} was not read from a file, so it cannot be read again")
    found = load_overlay(overlay.source)
    if digest and found.digest != digest:
        raise ConfigError(f"{overlay.source} at the broker is another file than the one to be applied; copy it first")
    return found


def change_for(name: str, before: Overlay, after: Overlay, *, port: int, tls: TlsState) -> OverlayChange:
    """The difference, if this broker, listening on that port, can apply it; otherwise raises ``ConfigError``."""
    if name not in after.brokers:
        raise RestartError(f"broker {name} is not in the overlay any more; stop it")
    if obstacles := list(_obstacles(name, before, after, port)):
        raise RestartError(f"needs a restart of broker {name}: {'; '.join(obstacles)}")
    after.check(name)
    change = change_between(before, after)
    if tls.is_news(after.place_of(name).tls):
        change = replace(change, shared=(*change.shared, "files of TLS"))
    return change


def change_between(before: Overlay, after: Overlay) -> OverlayChange:
    """The difference between two overlays."""
    both = [name for name in before.brokers if name in after.brokers]
    changed = [(name, _differences(before.brokers[name], after.brokers[name])) for name in both]
    homes = [(before.homes[name], after.homes[name]) for name in before.homes if name in after.homes]
    pubends = [(new.pubend, _home_differences(old, new)) for old, new in homes]
    return OverlayChange(
        brokers_added=tuple(name for name in after.brokers if name not in before.brokers),
        brokers_removed=tuple(name for name in before.brokers if name not in after.brokers),
        brokers_changed=tuple((name, what) for name, what in changed if what),
        links_added=tuple(link for link in after.links if link not in before.links),
        links_removed=tuple(link for link in before.links if link not in after.links),
        pubends_added=tuple(home.pubend for home in after.homes.values() if home.name not in before.homes),
        pubends_removed=tuple(home.pubend for home in before.homes.values() if home.name not in after.homes),
        pubends_changed=tuple((name, what) for name, what in pubends if what),
        shared=tuple(
            what
            for what in ("name", "security", "access", "ship", "token", "limit")
            if getattr(before, what) != getattr(after, what)
        ),
    )


def _obstacles(name: str, before: Overlay, after: Overlay, port: int) -> Iterator[str]:
    old, new = before.place_of(name), after.place_of(name)
    if new.port not in (old.port, port):
        yield f"port ({port} to {new.port})"
    yield from _home_obstacles(name, before, after)
    for key in ("listens_at", "admin_host", "admin_port", "data", "database", "data_bytes_max"):
        if getattr(old, key) != getattr(new, key):
            yield f"{key} ({getattr(old, key)} to {getattr(new, key)})"
    for key in ("port", "websocket_port"):
        if getattr(old.stomp, key) != getattr(new.stomp, key):
            yield f"stomp {key} ({getattr(old.stomp, key)} to {getattr(new.stomp, key)})"
    if (old.tls is None) != (new.tls is None):
        yield "TLS on or off"
    elif before.security.mutual != after.security.mutual:
        yield "mutual TLS on or off"
    if before.security.admin_token != after.security.admin_token:
        yield "admin_token"
    if before.ship != after.ship:
        yield "ship"
    try:
        yield from needs_restart(before.settings_for(name), after.settings_for(name))
    except SettingsError as error:
        raise ConfigError(str(error)) from None


def _home_obstacles(name: str, before: Overlay, after: Overlay) -> Iterator[str]:
    """What this broker cannot change while it runs in the pubends that it is a candidate for.

    Other candidates may come and go, since the database decides among them. Whether it is a candidate itself, and where
    and for how long the home is held, is settled when a broker starts.
    """
    old = {home.name: home for home in before.candidate_for(name)}
    new = {home.name: home for home in after.candidate_for(name)}
    for each in {**old, **new}:
        if each not in new:
            yield f"it is no candidate for {old[each].pubend} any more"
        elif each not in old:
            yield f"it becomes a candidate for {new[each].pubend}"
        elif old[each] != new[each]:
            yield from _seat_obstacles(name, (before, old[each]), (after, new[each]))


def _seat_obstacles(name: str, before: tuple[Overlay, Home], after: tuple[Overlay, Home]) -> Iterator[str]:
    (overlay, old), (new_overlay, new) = before, after
    if old.database.url != new.database.url:
        # With two databases two candidates would run it at the same time. A password is in the url: it is not shown.
        yield f"the database of {old.pubend}, {_TOGETHER}"
    if old.lease != new.lease:
        yield f"lease_ms of {old.pubend} ({old.lease.lease_ms} to {new.lease.lease_ms}), {_TOGETHER}"
    if old.database.replicas_min != new.database.replicas_min:
        yield f"replicas_min of {old.pubend} ({old.database.replicas_min} to {new.database.replicas_min})"
    settings = overlay.running(old, name).settings_for(old.name)
    for what in needs_restart(settings, new_overlay.running(new, name).settings_for(new.name)):
        yield f"{what} of {old.pubend}"


def _home_differences(before: Home, after: Home) -> tuple[str, ...]:
    what = [key for key in ("candidates", "lease") if getattr(before, key) != getattr(after, key)]
    return (*what, *_differences(before.place, after.place))


def _differences(before: BrokerPlace, after: BrokerPlace) -> tuple[str, ...]:
    return tuple(
        each.name
        for each in fields(BrokerPlace)
        if each.compare and getattr(before, each.name) != getattr(after, each.name)
    )


def _digest(files: TlsFiles | None) -> bytes:
    found = sha256()
    paths: list[Path | None] = [] if files is None else [files.ca, files.certificate, files.key]
    for path in paths:
        try:
            found.update(b"" if path is None else sha256(path.read_bytes()).digest())
        except OSError as error:
            raise TlsError(f"{path} cannot be read: {error.strerror or error}") from None
    return found.digest()
