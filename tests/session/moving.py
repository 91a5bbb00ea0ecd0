"""What the tests of moves share: a resident that is connected, subscribed, and on its way to another broker."""

from __future__ import annotations

from penstock.client.wanted import wanted
from penstock.model.body import encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.protocol.frames import (
    PROTOCOL_VERSION,
    Deliver,
    Frame,
    Horizons,
    Migrate,
    PubendNames,
    Subscribed,
    Welcome,
)
from penstock.session.changes import Changes
from penstock.session.inbox import Inbox
from penstock.session.newcomer import Newcomer
from penstock.session.resident import Resident
from penstock.session.settings import ClientSettings

ORDER = Migrate(7, 1, "new", "penstock://127.0.0.1:1")


def welcome(broker: str, pubends: tuple[str, ...] = (), overlay: str = "o") -> Welcome:
    return Welcome(PROTOCOL_VERSION, broker, overlay, 11, 2, 50_000, 1_000, 100_000, pubends)


def message(tick: int, pubend: int = 0, *numbers: int) -> Deliver:
    body = encode_body(MessageId(9, 1, 1_000, tick % 65536), Message({"n": tick}))
    return Deliver(pubend, [tick], [b"".join(each.to_bytes(4) for each in numbers or (1,))], [body])


def horizon(tick: int, pubend: int = 0, number: int = 1) -> Horizons:
    return Horizons(pubend, tick, number.to_bytes(4), is_only=True, present=tick)


def told(endpoint: Resident | Newcomer, *frames: Frame) -> Changes:
    return endpoint.on_frames(frames, now_ms=100, wall_ms=0)


def said(endpoint: Resident | Newcomer) -> list[Frame]:
    return endpoint.take_frames(now_ms=100)


def connected(*, durable: str = "", pubends: tuple[str, ...] = ()) -> tuple[Resident, Inbox]:
    """A resident with one subscription, which has had everything of ``quotes`` below tick 10."""
    resident = Resident(ClientSettings(acknowledge_ms=0), name="me")
    resident.on_connected(now_ms=0)
    inbox = resident.subscribe(wanted("TRUE", durable=durable))
    told(resident, welcome("old", pubends), PubendNames(((0, "quotes"), (1, "loose"))))
    told(resident, Subscribed(1, "TRUE", (), (("quotes", 5),)), horizon(5), message(9))
    said(resident)
    return resident, inbox


def moving(resident: Resident) -> Newcomer:
    """The new connection, welcomed; there the numbers of pubends are others."""
    newcomer = resident.begin_move(ORDER)
    newcomer.on_connected(now_ms=0)
    told(newcomer, welcome("new"), PubendNames(((2, "quotes"), (3, "loose"))))
    return newcomer


def numbers(inbox: Inbox, pubend: str = "quotes") -> list[int]:
    return [each.tick for each in inbox.queue if each.pubend == pubend]
