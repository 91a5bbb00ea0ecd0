"""What the broker says about subscriptions."""

from __future__ import annotations

from penstock.client.changes import Changes
from penstock.client.inboxes import Inboxes
from penstock.client.moves import Moves
from penstock.client.settings import ClientSettings
from penstock.client.subscribing import Subscribing
from penstock.client.wanted import wanted
from penstock.protocol.frames import Refused, Subscribed


def test_a_subscription_comes_into_force_and_is_refused_later() -> None:
    inboxes = Inboxes(ClientSettings())
    subscribing = Subscribing(inboxes, Moves(inboxes))
    inbox = inboxes.add(wanted("TRUE"))
    changes = Changes()
    subscribing.on_subscribed(Subscribed(inbox.number, "a = 1"), changes)
    assert (inbox.state, inbox.granted, changes.inboxes) == ("ready", "a = 1", {inbox.number: inbox})
    subscribing.on_refused(Refused("subscribe", inbox.number, "not any more"), changes)
    assert (inbox.state, inbox.reason) == ("refused", "not any more")
    assert inboxes.get(inbox.number) is None


def test_answers_about_what_is_not_there_change_nothing() -> None:
    inboxes = Inboxes(ClientSettings())
    subscribing = Subscribing(inboxes, Moves(inboxes))
    changes = Changes()
    subscribing.on_subscribed(Subscribed(7, "TRUE"), changes)
    subscribing.on_refused(Refused("subscribe", 7, "no"), changes)
    subscribing.end(7, changes)
    assert changes == Changes()
