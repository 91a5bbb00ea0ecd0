"""What an overlay consists of, and who may reach it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from live.support import lone, row, with_port
from penstock.broker.access import Access, Rule
from penstock.broker.candidate import LeaseSettings
from penstock.live.errors import ConfigError, ExposedError, StorageError
from penstock.live.overlay import BrokerPlace, Database, Home, Overlay, Security, is_loopback
from penstock.live.shipping.settings import ShipSettings
from penstock.live.tls import TlsFiles

HUSH = "hush"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - what the checks are about


def exposed(overlay: Overlay, **changes: Any) -> Overlay:
    name = next(iter(overlay.brokers))
    return replace(overlay, brokers=dict(overlay.brokers) | {name: replace(overlay.brokers[name], **changes)})


def test_a_link_is_known_at_both_ends_and_dialled_from_one() -> None:
    overlay = row("b1", "b2", "b3")
    assert overlay.neighbours_of("b2") == ("b1", "b3")
    assert [place.name for place in overlay.dialled_by("b2")] == ["b1"]
    assert overlay.dialled_by("b1") == ()


def test_settings_say_what_the_broker_must_know() -> None:
    overlay = replace(row("b1", "b2"), security=Security(link_token=HUSH), access=Access({"x": "y"}))
    settings = overlay.settings_for("b2")
    assert (settings.name, settings.number, settings.overlay) == ("b2", 2, "test")
    assert (settings.pubends, settings.neighbours) == (("b2.a",), ("b1",))
    assert (settings.link_credential, settings.access.tokens) == (HUSH, {"x": "y"})
    assert settings.heartbeat_ms == 50


def test_a_broker_that_is_not_there_is_said_so() -> None:
    with pytest.raises(ConfigError, match="no broker 'b9' in overlay test; there are: b1, b2"):
        row("b1", "b2").settings_for("b9")


def test_brokers_without_a_way_between_them_are_on_different_islands() -> None:
    overlay = row("b1", "b2", "b3", "b4")
    assert overlay.islands() == [["b1", "b2", "b3", "b4"]]
    assert replace(overlay, links=(("b4", "b1"), ("b2", "b3"))).islands() == [["b1", "b4"], ["b2", "b3"]]
    assert overlay.settings_for("b2").members == ("b1", "b2", "b3", "b4")


def test_secrets_are_not_shown() -> None:
    assert HUSH not in repr(Security(link_token=HUSH, admin_token=HUSH))


def test_who_guarantees_needs_a_data_folder(tmp_path: Path) -> None:
    overlay = exposed(lone(), best_effort=(), where="o.toml:7")
    complaint = r"^o\.toml:7: broker b1 guarantees delivery from b1\.a, but has no data folder .* \(data\), or name"
    with pytest.raises(StorageError, match=complaint):
        overlay.check_storage("b1")
    exposed(overlay, data=tmp_path).check_storage("b1")
    exposed(overlay, best_effort=("b1.a",)).check_storage("b1")
    exposed(overlay, pubends=()).check_storage("b1")


def test_words_and_numbers_may_be_tuned() -> None:
    settings = exposed(lone(), tunables={"retain_policy": "lapse", "lease_ms": 9_000}).settings_for("b1")
    assert (settings.retain_policy, settings.lease_ms, settings.best_effort) == ("lapse", 9_000, ("b1.a",))


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        (EVERYWHERE, False),
        ("::", False),
        ("10.0.0.1", False),
        ("localhost.example", False),
        ("", False),
    ],
)
def test_only_loopback_is_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) == expected


def test_on_loopback_nothing_must_be_proved() -> None:
    row("b1", "b2").check_exposure("b1")


@pytest.mark.parametrize("changes", [{"host": "10.0.0.1"}, {"bind": EVERYWHERE}])
def test_beyond_loopback_clients_must_prove_who_they_are(changes: dict[str, str]) -> None:
    with pytest.raises(ExposedError, match=r"let anybody in; name clients with tokens .* or bind to 127\.0\.0\.1"):
        exposed(lone(), **changes).check_exposure("b1")
    exposed(lone(access=Access({"x": "y"})), **changes).check_exposure("b1")
    exposed(lone(access=Access(certificates=True)), **changes).check_exposure("b1")


def test_beyond_loopback_brokers_must_prove_who_they_are() -> None:
    overlay = replace(exposed(row("b1", "b2"), bind=EVERYWHERE, where="o.toml:7"), access=Access({"x": "y"}))
    with pytest.raises(ExposedError, match=r"^o\.toml:7: broker b1 .* as a broker, .* set \[security\] link_token"):
        overlay.check_exposure("b1")
    replace(overlay, security=Security(link_token=HUSH)).check_exposure("b1")
    replace(overlay, security=Security(mutual=True)).check_exposure("b1")


def test_who_names_its_clients_lets_nobody_in_as_a_broker_on_loopback_either() -> None:
    overlay = replace(row("b1", "b2"), access=Access({"x": "y"}))
    complaint = (
        r"^broker b1 would let anybody in as a broker, .* set \[security\] link_token, .*leave out \[\[clients\]\]"
    )
    with pytest.raises(ExposedError, match=complaint):
        overlay.check_exposure("b1")
    replace(overlay, security=Security(link_token=HUSH)).check_exposure("b1")
    replace(overlay, security=Security(mutual=True)).check_exposure("b1")
    replace(overlay, links=()).check_exposure("b1")


def test_rules_without_proof_of_who_is_who_are_none() -> None:
    overlay = lone(access=Access(rules=(Rule("feed-%"),)))
    with pytest.raises(ExposedError, match=r"let anybody in, who could claim any name .*name clients with tokens"):
        overlay.check_exposure("b1")
    replace(overlay, access=Access({"feed-1": HUSH}, overlay.access.rules)).check_exposure("b1")
    replace(overlay, access=Access(rules=overlay.access.rules, certificates=True)).check_exposure("b1")


def test_mutual_tls_makes_certificates_count() -> None:
    overlay = replace(row("b1", "b2"), security=Security(mutual=True), access=Access({"x": "y"}))
    assert overlay.settings_for("b1").access.certificates


def test_beyond_loopback_the_admin_api_needs_a_token() -> None:
    overlay = exposed(lone(), admin_host=EVERYWHERE, admin_port=1)
    with pytest.raises(ExposedError, match="would serve its admin API at"):
        overlay.check_exposure("b1")
    replace(overlay, security=Security(admin_token=HUSH)).check_exposure("b1")
    exposed(lone(), admin_host=EVERYWHERE, admin_port=0).check_exposure("b1")


def test_a_broker_knows_where_clients_reach_it() -> None:
    overlay = with_port(row("b1", "b2"), "b1", 7001)
    assert overlay.settings_for("b1").address == overlay.settings_for("b1").reached_at == "penstock://127.0.0.1:7001"
    place = replace(overlay.place_of("b1"), host="::1", tls=TlsFiles(Path("ca.pem")))
    assert place.address == "penstocks://[::1]:7001"


HOME = Home(
    BrokerPlace("q.home", 9, 0, pubends=("q",), database=Database("postgresql://db/test")),
    ("b1", "b2"),
    LeaseSettings(),
)


def test_a_home_has_one_link_and_what_the_broker_beside_it_has(tmp_path: Path) -> None:
    files = TlsFiles(tmp_path / "ca", tmp_path / "certificate", tmp_path / "key")
    overlay = replace(row("b1", "b2", "b3"), homes={"q.home": HOME}, ship=ShipSettings(tmp_path / "lake"))
    overlay = exposed(overlay, data=tmp_path / "data", tls=files)
    seen = overlay.running(HOME, "b1")
    place = seen.place_of("q.home")
    assert [each.name for each in seen.dialled_by("q.home")] == ["b1"]
    assert seen.settings_for("q.home").neighbours == ("b1",)
    assert (place.data, place.tls, place.database) == (tmp_path / "data" / "homes" / "q.home", files, HOME.database)
    assert seen.ship == overlay.ship
    seen.check_shipping("q.home")


def test_a_home_keeps_its_messages_wherever_its_candidate_keeps_nothing() -> None:
    overlay = replace(row("b1", "b2"), homes={"q.home": HOME})
    seen = overlay.running(HOME, "b2")
    assert seen.place_of("q.home").data is None
    seen.check_storage("q.home")


def test_two_candidates_for_a_pubend_have_no_link_through_it() -> None:
    overlay = replace(row("b1", "b2"), links=(), homes={"q.home": HOME})
    assert overlay.islands() == [["b1"], ["b2"]]


def test_whoever_asks_for_a_home_by_name_is_told_where_it_may_be() -> None:
    overlay = replace(row("b1", "b2"), homes={"q.home": HOME})
    with pytest.raises(ConfigError, match=r"q\.home is the home of a pubend .* candidates: b1, b2$"):
        overlay.place_of("q.home")
    assert overlay.running(HOME, "b1").place_of("q.home").pubends == ("q",)
