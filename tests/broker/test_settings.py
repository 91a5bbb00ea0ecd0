"""Settings of a broker: each check, and its words."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from penstock.broker.access import Access
from penstock.broker.settings import BrokerSettings, SettingsError, SettingsInForce
from penstock.model.errors import MisuseError


def test_a_name_is_all_that_is_needed() -> None:
    settings = BrokerSettings("a")
    assert (settings.overlay, settings.number, settings.pubends, settings.neighbours) == ("penstock", 1, (), ())
    assert settings.access.is_open


@pytest.mark.parametrize("name", ["a", "A-z_0.9", "x" * 100])
def test_names_of_letters_digits_dashes_underscores_and_dots_are_accepted(name: str) -> None:
    settings = BrokerSettings(name, overlay=name, pubends=(name,))
    assert settings.pubends == (settings.name,)


@pytest.mark.parametrize("name", ["", "x" * 101, "a b", "$a", "a/b", "é", "a\n", "٣"])
@pytest.mark.parametrize("what", ["name", "overlay", "pubend"])
def test_other_names_are_refused(what: str, name: str) -> None:
    named: dict[str, Any] = {"name": "good", "overlay": "good", "pubends": ("good", "fine")}
    named |= {"pubends": ("good", name)} if what == "pubend" else {what: name}
    with pytest.raises(SettingsError) as refused:
        BrokerSettings(**named)
    rule = "is not 1 to 100 letters, digits, dashes, underscores or dots"
    assert str(refused.value) == f"{what} {name!r} {rule}"


@pytest.mark.parametrize("number", [1, 2**32 - 1])
def test_a_number_of_32_bits_is_accepted(number: int) -> None:
    assert BrokerSettings("a", number=number).number == number


@pytest.mark.parametrize("number", [0, -1, 2**32])
def test_a_number_that_no_identifier_can_hold_is_refused(number: int) -> None:
    with pytest.raises(SettingsError, match=rf"^number {number} of broker a is not in 1 \.\. 4294967295$"):
        BrokerSettings("a", number=number)


def test_silence_lasts_at_least_two_heartbeats() -> None:
    assert BrokerSettings("a", heartbeat_ms=100, silent_ms=200).silent_ms == 200
    with pytest.raises(SettingsError, match=r"^silent_ms 199 is less than two heartbeats of 100 ms$"):
        BrokerSettings("a", heartbeat_ms=100, silent_ms=199)


@pytest.mark.parametrize(
    "setting", ["heartbeat_ms", "handshake_ms", "subscribe_wait_ms", "credit_bytes", "connections_max"]
)
@pytest.mark.parametrize("value", [0, -1])
def test_times_and_amounts_are_positive(setting: str, value: int) -> None:
    chosen: dict[str, Any] = {setting: value}
    with pytest.raises(SettingsError, match=rf"^{setting} {value} is not positive$"):
        BrokerSettings("a", **chosen)
    chosen = {setting: 1}
    assert getattr(BrokerSettings("a", **chosen), setting) == 1


def test_a_broker_has_no_link_to_itself() -> None:
    assert BrokerSettings("a", neighbours=("b", "c")).neighbours == ("b", "c")
    with pytest.raises(SettingsError, match=r"^broker a has a link to itself$"):
        BrokerSettings("a", neighbours=("b", "a"))


def test_a_bad_setting_is_misuse_also_when_settings_are_copied() -> None:
    assert issubclass(SettingsError, MisuseError)
    with pytest.raises(SettingsError, match="credit_bytes"):
        dataclasses.replace(BrokerSettings("a"), credit_bytes=0)


def test_secrets_are_not_shown() -> None:
    settings = BrokerSettings("a", link_credential="secret-1", access=Access(tokens={"alice": "secret-2"}))
    assert "secret" not in repr(settings)


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        BrokerSettings("a").number = 2  # type: ignore[misc]


def test_settings_in_force_change_as_a_whole_and_no_others_do() -> None:
    before, after = BrokerSettings("pb", retain_ms=1), BrokerSettings("pb", retain_ms=2, neighbours=("sb",))
    in_force = SettingsInForce.of(before)
    in_force.change_to(after)
    assert (in_force.retain_ms, in_force.neighbours, before.retain_ms) == (2, ("sb",), 1)
    with pytest.raises(AttributeError):
        in_force.retain_ms = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("views", "complaint"),
    [
        ((("q", "a"),), "last_values names q, which is not among the broker's pubends"),
        ((("quick", "a"),), "last_values needs a guaranteed pubend, and quick is best effort"),
        ((("p", "a"), ("p", "b")), "last_values names pubend p twice"),
        ((("p", ""),), "is not the name of an attribute"),
        ((("p", "x" * 256),), "is not the name of an attribute"),
        ((("p", "a\n"),), "is not the name of an attribute"),
    ],
)
def test_only_guaranteed_pubends_keep_last_values_by_one_attribute(
    views: tuple[tuple[str, str], ...], complaint: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        BrokerSettings("a", pubends=("p", "quick"), best_effort=("quick",), last_values=views)
    assert complaint in str(refused.value)
    assert BrokerSettings("a", pubends=("p",), last_values=(("p", "x" * 255),)).last_values
