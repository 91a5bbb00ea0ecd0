"""Pubends with candidates in the overlay file."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.live.config import load_overlay
from penstock.live.errors import ConfigError
from penstock.live.overlay import Overlay

_BROKERS = """
overlay = "quotes"
[defaults]
retain_ms = 7_000
[brokers.pb1]
port = 7001
pubends = ["own"]
[brokers.pb2]
port = 7002
[[links]]
between = ["pb1", "pb2"]
"""
_URL = 'data = "postgresql://penstock:secret@db1,db2/penstock"'


def loaded(folder: Path, text: str, brokers: str = _BROKERS) -> Overlay:
    path = folder / "o.toml"
    path.write_text(brokers + text, encoding="utf-8")
    return load_overlay(path)


def test_a_pubend_with_candidates_has_a_home(tmp_path: Path) -> None:
    overlay = loaded(tmp_path, f'[pubends.orders]\nbrokers = ["pb2", "pb1"]\n{_URL}\nreplicas_min = 1\n')
    (home,) = overlay.homes.values()
    assert (home.name, home.pubend, home.candidates) == ("orders.home", "orders", ("pb2", "pb1"))
    assert (home.database.replicas_min, home.lease.lease_ms) == (1, 2_000)
    assert "secret" not in repr(overlay)
    settings = overlay.running(home, "pb1").settings_for("orders.home")
    assert settings.pubends == ("orders",)
    assert settings.neighbours == ("pb1",)
    assert settings.retain_ms == 7_000
    for name in overlay.brokers:
        assert "orders.home" in overlay.settings_for(name).neighbours


def test_a_profile_or_a_lease_says_how_soon_another_takes_over(tmp_path: Path) -> None:
    (swift,) = loaded(tmp_path, f'[pubends.orders]\nbrokers = ["pb1"]\n{_URL}\nprofile = "swift"\n').homes.values()
    assert swift.lease.lease_ms == 500
    (own,) = loaded(tmp_path, f'[pubends.orders]\nbrokers = ["pb1"]\n{_URL}\nlease_ms = 900\n').homes.values()
    assert own.lease.lease_ms == 900
    assert own.database.answer_ms == 1_800


def test_the_broker_of_a_home_keeps_last_values_too(tmp_path: Path) -> None:
    overlay = loaded(tmp_path, f'[pubends.orders]\nbrokers = ["pb1"]\n{_URL}\nlast_values = "symbol"\n')
    assert overlay.homes["orders.home"].place.last_values == (("orders", "symbol"),)
    assert overlay.settings_for("pb2").all_last_values == (("orders", "symbol"),)


def test_a_broker_may_keep_everything_in_a_database(tmp_path: Path) -> None:
    overlay = loaded(tmp_path, "", f'overlay = "q"\n[brokers.pb1]\nport = 7001\npubends = ["p"]\n{_URL}\n')
    place = overlay.brokers["pb1"]
    assert place.database is not None
    assert place.keeps_data


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (f'brokers = ["pb1", "pb1"]\n{_URL}', "names a broker twice"),
        (f'brokers = ["pb3"]\n{_URL}', "there is no broker 'pb3'; there are: pb1, pb2"),
        ('brokers = ["pb1"]', "must name the database that all candidates share"),
        ('brokers = ["pb1"]\ndata = "data/x"', "must be a url"),
        (f'brokers = ["pb1"]\n{_URL}\nprofile = "fast"', "'fast' is none of: calm, swift"),
        (f'brokers = ["pb1"]\n{_URL}\nlease_ms = 10', "10 is less than 200"),
        (f"{_URL}", "no broker has a pubend|is for a pubend with candidates"),
        ("replicas_min = 1", "no broker has a pubend|is for a pubend with candidates"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=rf"o\.toml:\d+: .*({complaint})"):
        loaded(tmp_path, f"[pubends.orders]\n{text}\n")


def test_a_pubend_has_candidates_or_a_broker(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="broker pb1 has own among its own pubends"):
        loaded(tmp_path, f'[pubends.own]\nbrokers = ["pb2"]\n{_URL}\n')


def test_a_broker_may_not_have_the_name_of_a_home(tmp_path: Path) -> None:
    brokers = _BROKERS.replace("[brokers.pb2]", '[brokers."orders.home"]').replace('"pb2"', '"orders.home"')
    with pytest.raises(ConfigError, match=r"the home of this pubend is called orders\.home, as"):
        loaded(tmp_path, f'[pubends.orders]\nbrokers = ["pb1"]\n{_URL}\n', brokers)


def test_replicas_need_a_database(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"needs a database \(data = "):
        loaded(tmp_path, "", 'overlay = "q"\n[brokers.pb1]\nport = 7001\npubends = ["p"]\nreplicas_min = 1\n')


def test_the_size_of_a_database_is_not_ours_to_limit(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is for a data folder"):
        loaded(tmp_path, "", f'overlay = "q"\n[brokers.pb1]\nport = 7001\n{_URL}\ndata_bytes_max = 1000\n')


def test_settings_that_only_a_home_has_are_checked(tmp_path: Path) -> None:
    brokers = _BROKERS.replace("retain_ms = 7_000", "lease_ms = 1_000").replace("port", "lease_ms = 9_000\nport")
    with pytest.raises(ConfigError, match=r"o\.toml:\d+: .*lease_ms"):
        loaded(tmp_path, f'[pubends.orders]\nbrokers = ["pb1"]\n{_URL}\n', brokers)


@pytest.mark.parametrize("url", ["postgresql://db1:54x2/q", "postgresql://db1/q?sslmood=require"])
def test_a_url_that_cannot_be_right_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigError, match=r"o\.toml:\d+: .*data"):
        loaded(tmp_path, f'[pubends.orders]\nbrokers = ["pb1"]\ndata = "{url}"\n')


def test_a_mistyped_url_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is neither a folder nor a url"):
        loaded(tmp_path, "", 'overlay = "q"\n[brokers.pb1]\nport = 7001\ndata = "postgresq://db1/q"\n')


def test_what_a_home_complains_of_has_file_and_line(tmp_path: Path) -> None:
    overlay = loaded(tmp_path, f'[pubends.orders]\nbrokers = ["pb1"]\n{_URL}\n')
    assert overlay.homes["orders.home"].place.where.startswith(f"{tmp_path / 'o.toml'}:")
