"""Overlay files."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.broker.settings import BrokerSettings
from penstock.congestion import CongestionSettings
from penstock.live.config import TEXT_TUNABLES, TUNABLES, load_overlay
from penstock.live.errors import ConfigError
from penstock.live.overlay import Overlay
from penstock.live.shipping.settings import ShipSettings
from penstock.selectors.selector import EVERYTHING, Selector

FULL = """\
overlay = "demo"
[security]
link_token = "links"
admin_token = "admin"
[security.tls]
ca = "ca.pem"
certificate = "certs/{name}.pem"
key = "certs/{name}.key"
mutual = true
[defaults]
heartbeat_ms = 200
silent_ms = 900
[brokers.pb1]
port = 7001
admin_port = 8001
pubends = ["pb1.a", "pb1.b"]
silent_ms = 5000
[brokers.ib1]
host = "10.0.0.2"
bind = "0.0.0.0"
port = 7001
number = 7
certificate = "other.pem"
[[links]]
between = ["pb1", "ib1"]
[[clients]]
name = "feed-1"
token = "secret"
[[access]]
clients = "feed-%"
publish = "class = 'STOCK'"
subscribe = false
[[access]]
clients = "%"
subscribe = true
"""

SMALL = """\
overlay = "demo"
[brokers.b1]
port = 7001
[brokers.b2]
port = 7002
[[links]]
between = ["b1", "b2"]
"""


def loaded(text: str, folder: Path) -> Overlay:
    path = folder / "overlay.toml"
    path.write_text(text, encoding="utf-8")
    return load_overlay(path)


def test_everything_that_can_be_said_is_understood(tmp_path: Path) -> None:
    overlay = loaded(FULL, tmp_path)
    pb1, ib1 = overlay.brokers["pb1"], overlay.brokers["ib1"]
    assert (overlay.name, overlay.links) == ("demo", (("pb1", "ib1"),))
    assert (pb1.host, pb1.port, pb1.admin_port, pb1.admin_host) == ("127.0.0.1", 7001, 8001, "127.0.0.1")
    assert (ib1.number, ib1.host, ib1.listens_at) == (7, "10.0.0.2", "0.0.0.0")  # noqa: S104 - not bound here
    assert (overlay.security.link_token, overlay.security.admin_token) == ("links", "admin")
    assert overlay.security.mutual
    assert pb1.tls is not None
    assert ib1.tls is not None
    assert pb1.tls.ca == tmp_path / "ca.pem"
    assert (pb1.tls.certificate, pb1.tls.key) == (tmp_path / "certs/pb1.pem", tmp_path / "certs/pb1.key")
    assert (ib1.tls.certificate, ib1.tls.key) == (tmp_path / "other.pem", tmp_path / "certs/ib1.key")
    assert pb1.tls.mutual
    assert pb1.where.endswith("overlay.toml:13")


def test_the_settings_of_a_broker_follow(tmp_path: Path) -> None:
    settings = loaded(FULL, tmp_path).settings_for("pb1")
    assert (settings.heartbeat_ms, settings.silent_ms) == (200, 5000)
    assert (settings.pubends, settings.neighbours) == (("pb1.a", "pb1.b"), ("ib1",))
    access = settings.access
    assert (access.tokens, access.certificates) == ({"feed-1": "secret"}, True)
    assert access.rule_for("feed-9").publish == Selector.parse("class = 'STOCK'")
    assert access.rule_for("feed-9").subscribe is None
    assert access.rule_for("reader").subscribe is EVERYTHING
    assert access.rule_for("reader").publish is None


def test_little_needs_to_be_said(tmp_path: Path) -> None:
    overlay = loaded(SMALL, tmp_path)
    numbers = [place.number for place in overlay.brokers.values()]
    assert len({*numbers}) == 2
    without_the_first = loaded("overlay = 'small'\n[brokers.b2]\nport = 7002\n", tmp_path)
    assert without_the_first.brokers["b2"].number == numbers[1], "who comes or goes changes nobody's number"
    assert overlay.access.is_open
    assert overlay.access.rule_for("anybody").publish is EVERYTHING
    assert overlay.brokers["b1"].tls is None


def test_all_tunables_of_a_broker_can_be_set(tmp_path: Path) -> None:
    assert {"heartbeat_ms", "subscriptions_max", "credit_bytes", "lease_ms", "retain_bytes_max"} <= set(TUNABLES)
    assert TEXT_TUNABLES == ("retain_policy", "dead_letters")
    defaults = BrokerSettings("x")
    text = SMALL + "[defaults]\n" + "".join(f"{key} = {getattr(defaults, key) + 1}\n" for key in TUNABLES)
    settings = loaded(text + "retain_policy = 'lapse'\n", tmp_path).settings_for("b1")
    assert settings.retain_policy == "lapse"
    assert all(getattr(settings, key) == getattr(defaults, key) + 1 for key in TUNABLES)


DEAD = SMALL.replace("port = 7001", "port = 7001\npubends = ['jobs', 'dead', 'calls']\nbest_effort = ['calls']")


def test_dead_letters_go_to_a_guaranteed_pubend_of_any_broker(tmp_path: Path) -> None:
    overlay = loaded(DEAD + "[defaults]\ndead_letters = 'dead'\n", tmp_path)
    assert [overlay.settings_for(name).dead_letters for name in ("b1", "b2")] == ["dead", "dead"]
    assert loaded(DEAD + "[defaults]\ndead_letters = ''\n", tmp_path).settings_for("b1").dead_letters == ""


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("", "[defaults]\ndead_letters = 'nope'\n", "defaults.dead_letters: there is no guaranteed pubend 'nope'; "),
        ("", "[defaults]\ndead_letters = 'calls'\n", "defaults.dead_letters: .*'calls'.* best effort"),
        ("port = 7001", "dead_letters = 'calls'\nport = 7001", "brokers.b1.dead_letters: .*'calls'.* best effort"),
        ("port = 7002", "dead_letters = 'calls'\nport = 7002", "brokers.b2.dead_letters: .*'calls'.* best effort"),
    ],
)
def test_dead_letters_that_nobody_could_keep_are_an_error(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    text = DEAD.replace(old, new) if old else DEAD + new
    with pytest.raises(ConfigError, match=complaint):
        loaded(text, tmp_path)


def test_congestion_control_is_set_for_all_brokers_and_for_one(tmp_path: Path) -> None:
    general = "[congestion]\nprofile = 'swift'\nsample_ms = 300\nsmoothing = 1\nsdcc = false\n"
    own = "[brokers.b2.congestion]\nsample_ms = 400\nrecovering_margin = 0.5\n"
    overlay = loaded(SMALL + general + own, tmp_path)
    first, second = (overlay.settings_for(name).congestion for name in ("b1", "b2"))
    assert first == CongestionSettings.swift(sample_ms=300, smoothing=1.0, sdcc=False)
    assert second == CongestionSettings.swift(sample_ms=400, smoothing=1.0, sdcc=False, recovering_margin=0.5)
    own = "[brokers.b2.congestion]\nprofile = 'paper'\nnack_group = true\n"
    assert loaded(SMALL + general + own, tmp_path).settings_for("b2").congestion == CongestionSettings.paper(
        sdcc=False, nack_group=True
    )
    assert loaded(SMALL, tmp_path).settings_for("b1").congestion == CongestionSettings()


def test_a_broker_guarantees_and_keeps_its_data_beside_the_file_unless_told_otherwise(tmp_path: Path) -> None:
    overlay = loaded(SMALL.replace("port = 7001", "port = 7001\npubends = ['a', 'b']"), tmp_path)
    assert overlay.brokers["b1"].best_effort == overlay.settings_for("b1").best_effort == ()
    assert [place.data for place in overlay.brokers.values()] == [tmp_path / "data/b1", tmp_path / "data/b2"]
    assert overlay.brokers["b1"].data_bytes_max == 0
    overlay.check_storage("b1")


@pytest.mark.parametrize(
    ("own", "general", "best_effort"),
    [
        ("service = 'best-effort'", "", ("a", "b")),
        ("service = 'guaranteed'", "service = 'best-effort'", ()),
        ("", "service = 'best-effort'", ("a", "b")),
        ("best_effort = ['b']", "", ("b",)),
        ("best_effort = ['b']", "service = 'best-effort'", ("b",)),
        ("best_effort = []", "service = 'best-effort'", ()),
    ],
)
def test_pubends_guarantee_or_do_their_best(
    tmp_path: Path, own: str, general: str, best_effort: tuple[str, ...]
) -> None:
    text = SMALL.replace("port = 7001", f"port = 7001\npubends = ['a', 'b']\n{own}") + f"[defaults]\n{general}\n"
    assert loaded(text, tmp_path).settings_for("b1").best_effort == best_effort


def test_the_data_folder_can_be_said_and_limited(tmp_path: Path) -> None:
    text = SMALL.replace("port = 7001", "port = 7001\ndata = 'kept/{name}'\ndata_bytes_max = 1000000")
    text = text.replace("port = 7002", "port = 7002\ndata = '/var/b2'")
    brokers = loaded(text, tmp_path).brokers
    assert (brokers["b1"].data, brokers["b1"].data_bytes_max) == (tmp_path / "kept/b1", 1_000_000)
    assert brokers["b2"].data == Path("/var/b2")


def test_brokers_of_different_machines_may_use_the_same_path(tmp_path: Path) -> None:
    text = SMALL.replace("port = 7002", "port = 7002\nhost = '10.0.0.2'").replace("port = ", "data = '/x'\nport = ")
    assert len(loaded(text, tmp_path).brokers) == 2


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('overlay = "demo"', "", "overlay.toml:1: overlay: is missing"),
        ('overlay = "demo"', "overlay = 3", "overlay.toml:1: overlay: must be a string, not an integer (3)"),
        ('overlay = "demo"', 'overlay = "a b"', "overlay.toml:1: overlay: overlay 'a b' is not 1 to 100 letters"),
        ("port = 7002", 'port = "x"', "overlay.toml:5: brokers.b2.port: must be an integer, not a string ('x')"),
        ("port = 7002", "port = true", "overlay.toml:5: brokers.b2.port: must be an integer"),
        ("port = 7002", "port = 70000", "overlay.toml:5: brokers.b2.port: 70000 is not in 0 .. 65535"),
        ("port = 7002", "prot = 7002", "overlay.toml:4: brokers.b2.port: is missing"),
        ("port = 7002", "port = 7001", "overlay.toml:5: brokers.b2.port: 127.0.0.1:7001 is taken by broker b1"),
        (
            "port = 7002",
            "port = 1\nadmin_port = 7001",
            "overlay.toml:6: brokers.b2.admin_port: 127.0.0.1:7001 is taken",
        ),
        ("port = 7002", "port = 1\nadmin_port = 1", "overlay.toml:6: brokers.b2.admin_port: 127.0.0.1:1 is taken"),
        (
            "port = 7002",
            "port = 1\nnumber = 2024147173",
            "overlay.toml:6: brokers.b2.number: 2024147173 is taken by broker b1",
        ),
        ("port = 7002", "port = 1\nnumber = 0", "overlay.toml:6: brokers.b2.number: 0 is not in 1 .. 4294967295"),
        (
            "port = 7002",
            "port = 1\npubends = ['a', 'a']",
            "overlay.toml:6: brokers.b2.pubends: a is taken by broker b2",
        ),
        ("port = 7002", "port = 1\npubends = ['a b']", "overlay.toml:6: brokers.b2.pubends: pubend 'a b' is not"),
        ("port = 7002", "port = 1\npubends = 'a'", "overlay.toml:6: brokers.b2.pubends: must be an array"),
        ("port = 7002", "port = 1\nadmin_prot = 3", "overlay.toml:6: brokers.b2.admin_prot: unknown key; did you mean"),
        ("port = 7002", "port = 1\nkey = 'x'", "overlay.toml:6: brokers.b2.key: needs a table [security.tls]"),
        ("port = 7002", "port = 1\nsilent_ms = 9", "overlay.toml:6: brokers.b2.silent_ms: silent_ms 9 is less than"),
        ("port = 7002", "port = 1\nheartbeat_ms = 0", "overlay.toml:6: brokers.b2.heartbeat_ms: heartbeat_ms 0 is not"),
        (
            "port = 7002",
            "port = 1\nretain_bytes_max = 5\nretain_bytes = 9",
            "overlay.toml:7: brokers.b2.retain_bytes: retain_bytes 9 is more than the maximum 5",
        ),
        (
            "port = 7002",
            "port = 1\nretain_bytes = 0\nretain_bytes_max = 0",
            "overlay.toml:7: brokers.b2.retain_bytes_max: retain_bytes_max 0 is not positive",
        ),
        (
            "port = 7002",
            "port = 1\nretain_policy = 'drop'",
            "overlay.toml:6: brokers.b2.retain_policy: retain_policy 'drop' is neither 'hold' nor 'lapse'",
        ),
        (
            "port = 7002",
            "port = 1\nretain_policy = 3",
            "overlay.toml:6: brokers.b2.retain_policy: must be a string, not an integer (3)",
        ),
        (
            "port = 7002",
            "port = 1\nlease_ms = 5",
            "overlay.toml:6: brokers.b2.lease_ms: lease_ms 5 is less than two silences",
        ),
        (
            "port = 7002",
            "port = 1\nservice = 'good'",
            "overlay.toml:6: brokers.b2.service: 'good' is neither 'guaranteed' nor 'best-effort'",
        ),
        (
            "port = 7002",
            "port = 1\nservice = 'guaranteed'\nbest_effort = ['a']",
            "overlay.toml:7: brokers.b2.best_effort: cannot be combined with service, which sets all pubends",
        ),
        (
            "port = 7002",
            "port = 1\npubends = ['a']\nbest_effort = ['b']",
            "overlay.toml:7: brokers.b2.best_effort: best_effort names b, not among the pubends of broker b2",
        ),
        ("port = 7002", "port = 1\nbest_effort = 'a'", "overlay.toml:6: brokers.b2.best_effort: must be an array"),
        ("port = 7002", "port = 1\ndata = 3", "overlay.toml:6: brokers.b2.data: must be a string"),
        ("port = 7002", "port = 1\ndata = 'data/b1'", "overlay.toml:6: brokers.b2.data: 127.0.0.1:"),
        ("port = 7002", "port = 1\ndata_bytes_max = -1", "overlay.toml:6: brokers.b2.data_bytes_max: -1 is not in"),
        ("[brokers.b2]", "[brokers.'b 2']", "overlay.toml:7: links[1].between: there is no broker 'b2'"),
        (
            '["b1", "b2"]',
            '["b1", "b9"]',
            "overlay.toml:7: links[1].between: there is no broker 'b9'; there are: b1, b2",
        ),
        ('["b1", "b2"]', '["b1"]', "overlay.toml:7: links[1].between: must name two brokers, not 1"),
        ('["b1", "b2"]', '["b1", "b1"]', "overlay.toml:7: links[1].between: broker b1 cannot have a link to itself"),
        (
            '["b1", "b2"]\n',
            '["b1", "b2"]\n[[links]]\nbetween = ["b2", "b1"]\n',
            "overlay.toml:9: links[2].between: the link between b2 and b1 is listed twice",
        ),
        ('["b1", "b2"]\n', '["b1", "b2"]\ncolour = 3\n', "overlay.toml:8: links[1].colour: unknown key"),
    ],
)
def test_what_is_wrong_is_said_with_file_line_and_key(old: str, new: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(SMALL.replace(old, new), tmp_path)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ("[colour]\nx = 1", "overlay.toml:8: colour: unknown key; known here: access, balancing, brokers, clients"),
        ("[defaults]\nnumber = 1", "overlay.toml:9: defaults.number: unknown key"),
        ("[defaults]\nsilent_ms = 1", "overlay.toml:9: defaults.silent_ms: silent_ms 1 is less than two heartbeats"),
        ("[defaults]\nservice = ''", "overlay.toml:9: defaults.service: '' is neither 'guaranteed' nor"),
        ("[defaults]\nretain_policy = ''", "overlay.toml:9: defaults.retain_policy: retain_policy '' is neither"),
        ("[defaults]\ndata = 'x'", "overlay.toml:9: defaults.data: unknown key"),
        ("[security]\nlink_tokn = 'x'", "overlay.toml:9: security.link_tokn: unknown key; did you mean link_token?"),
        ("[security.tls]\nmutual = 1", "overlay.toml:9: security.tls.mutual: must be true or false"),
        ("[security.tls]\nca = 'x'", "overlay.toml:8: security.tls.certificate: is missing"),
        ("[[clients]]\nname = 'a'", "overlay.toml:8: clients[1].token: is missing"),
        ("[[clients]]\nname = 'a'\ntoken = ''", "overlay.toml:10: clients[1].token: must not be empty"),
        ("[[clients]]\nname='a'\ntoken='b'\n" * 2, "overlay.toml:12: clients[2].name: client a is listed twice"),
        ("[[access]]\nclients = '%'\npublish = 'a >'", "overlay.toml:10: access[1].publish: not a selector:"),
        ("[[access]]\nclients = '%'\npublish = 3", "overlay.toml:10: access[1].publish: must be a string, true or"),
        ("[[access]]\nclients = '%'\nsee = true", "overlay.toml:10: access[1].see: unknown key"),
        ("[access]\nx = 1", "overlay.toml:8: access: must be an array, not a table"),
        ("[congestion]\nprofile = 'x'", "overlay.toml:9: congestion.profile: no profile 'x', only paper, swift"),
        ("[congestion]\nsample = 5", "overlay.toml:9: congestion.sample: unknown key; did you mean sample_ms?"),
        ("[congestion]\nsample_ms = 0.5", "overlay.toml:9: congestion.sample_ms: must be an integer, not a number"),
        ("[congestion]\nsmoothing = '1'", "overlay.toml:9: congestion.smoothing: must be a number, not a string"),
        ("[congestion]\npdcc = 'on'", "overlay.toml:9: congestion.pdcc: must be true or false, not a string"),
        ("[congestion]\n\nsample_ms = 1", "overlay.toml:10: congestion.sample_ms: sample_ms is 1, must be 10 to"),
        (
            "[congestion]\nprofile = 'swift'\nrate_floor_msg_s = 2\nsilence_limited_ms = 900",
            "overlay.toml:11: congestion.silence_limited_ms: sample_ms 250 is shorter than silence_limited_ms 900",
        ),
        (
            "[brokers.b1.congestion]\nrecovering_margin = 0",
            "overlay.toml:9: brokers.b1.congestion.recovering_margin: recovering_margin is 0.0, must be above 0",
        ),
    ],
)
def test_what_is_wrong_behind_is_found_too(more: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(SMALL + more, tmp_path)
    assert complaint in str(caught.value)


def test_an_overlay_needs_a_broker(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"overlay\.toml:1: brokers: there is no broker; add a table"):
        loaded("overlay = 'x'", tmp_path)


def test_an_overlay_has_no_more_pubends_than_a_frame_can_name(tmp_path: Path) -> None:
    pubends = ", ".join(f'"p{number}"' for number in range(10_001))
    with pytest.raises(ConfigError, match=r"brokers: 10,001 pubends are over the limit of 10,000"):
        loaded(f"overlay = 'x'\n[brokers.b1]\nport = 7001\npubends = [{pubends}]\n", tmp_path)


def test_ports_that_the_system_chooses_do_not_collide(tmp_path: Path) -> None:
    assert len(loaded(SMALL.replace("7001", "0").replace("7002", "0"), tmp_path).brokers) == 2


def test_a_lake_is_found_relative_to_the_file(tmp_path: Path) -> None:
    assert loaded(SMALL, tmp_path).ship is None
    overlay = loaded(SMALL + '[ship]\nlake = "water"\ninterval_ms = 500\nretain_ms = 7\n', tmp_path)
    assert overlay.ship == ShipSettings(tmp_path / "water", interval_ms=500, retain_ms=7)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", r"ship.lake: is missing"),
        ('lake = ""', r"ship.lake: must not be empty"),
        ('lake = "x"\ninterval_ms = 5', r"ship.interval_ms: 5 is not in 100"),
        ('lake = "x"\nlakes = 5', r"ship.lakes: unknown key; did you mean lake\?"),
    ],
)
def test_what_is_wrong_with_shipping_is_said(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        loaded(f"{SMALL}[ship]\n{text}\n", tmp_path)


def test_a_pubend_that_keeps_last_values_is_known_to_all_brokers(tmp_path: Path) -> None:
    text = FULL + '[pubends."pb1.b"]\nlast_values = "symbol"\n[pubends."pb1.a"]\n'
    overlay = loaded(text, tmp_path)
    assert overlay.settings_for("pb1").last_values == (("pb1.b", "symbol"),)
    assert overlay.settings_for("ib1").last_values == ()
    for name in ("pb1", "ib1"):
        assert overlay.settings_for(name).all_last_values == (("pb1.b", "symbol"),)


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ('[pubends.nobody]\nlast_values = "a"\n', "no broker has a pubend 'nobody'; there are: q.a, q.b"),
        ('[pubends."q.b"]\nlast_values = "a"\n', "last_values needs a guaranteed pubend, and q.b is best effort"),
        ('[pubends."q.a"]\nlast_values = "a\\n"\n', "is not the name of an attribute"),
        ('[pubends."q.a"]\nlast = "a"\n', "last"),
        ('[pubends."q.a"]\nlast_values = 1\n', "last_values"),
    ],
)
def test_what_a_pubend_cannot_keep_is_a_clear_error(tmp_path: Path, table: str, complaint: str) -> None:
    text = 'overlay = "o"\n[brokers.b1]\nport = 7001\npubends = ["q.a", "q.b"]\nbest_effort = ["q.b"]\n'
    with pytest.raises(ConfigError) as error:
        loaded(text + table, tmp_path)
    assert complaint in str(error.value)
    assert "overlay.toml:" in str(error.value)
