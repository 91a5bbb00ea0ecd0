"""Fuzzes overlay files: each must load, or be refused with a ``ConfigError`` that names the file in plain words."""

from __future__ import annotations

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

from bench.edge_fuzz.guide import Corpus, Coverage
from bench.edge_fuzz.oracle import Findings, check_words, turn
from bench.fuzzing import Fault
from penstock.live.config import load_overlay
from penstock.live.errors import ConfigError

__all__ = ["FILES_PER_SEED", "overlay_files_inside", "try_file"]

FILES_PER_SEED: Final = 1_000
_WATCHED_SHARE: Final = 0.15
_REASON_CHARS_MAX: Final = 2_000
_WHOLE: Final = b"""overlay = "demo"
[security]
link_token = "a link token of the overlay"
admin_token = "an admin token of the overlay"
[security.tls]
ca = "ca.pem"
certificate = "{name}.pem"
key = "{name}.key"
mutual = true
[defaults]
heartbeat_ms = 1000
service = "guaranteed"
retain_policy = "hold"
[congestion]
profile = "paper"
nouca_ms = 1000
[brokers.pb1]
port = 7001
number = 1
host = "127.0.0.1"
bind = "127.0.0.1"
admin_port = 9001
admin_host = "127.0.0.1"
pubends = ["pb1.a", "pb1.b"]
best_effort = ["pb1.b"]
data = "data/{name}"
data_bytes_max = 0
[pubends."pb1.a"]
last_values = "symbol"
[brokers.pb1.congestion]
sample_ms = 500
[brokers.sb1]
port = 7002
service = "best-effort"
[brokers.sb1.tracking]
strategy = "exact"
[brokers.sb1.balancing]
local_ratio_trigger = 0.1
[ship]
lake = "lake"
when = "interval"
interval_ms = 60000
retain_ms = 0
[token]
op_ms = 4000
[tracking]
strategy = "bloom"
[limit]
rate = "600KB"
[balancing]
local_ratio_trigger = 0.1
[[links]]
between = ["pb1", "sb1"]
[[clients]]
name = "feed-1"
token = "a token of feed 1"
[[access]]
clients = "feed-%"
publish = "class = 'STOCK'"
subscribe = false
trace = false
"""
_SMALL: Final = b'overlay = "demo"\n[brokers.b1]\nport = 7001\npubends = ["b1.a"]\n'
_VALUES: Final = (
    b"0",
    b"-1",
    b"1",
    b"65536",
    b"9223372036854775807",
    b"99999999999999999999",
    b"1.5",
    b"inf",
    b"nan",
    b"1e400",
    b"true",
    b"false",
    b'""',
    b'"x"',
    b'"\\u0000"',
    b'"\\ud7ff"',
    b"'''a\nb'''",
    b'"{name}"',
    b'"/dev/null/x"',
    b"[]",
    b"[1]",
    b'["a", "a"]',
    b"[[]]",
    b"{}",
    b"{a = 1}",
    b"1979-05-27",
    b"07:32:00",
    b"0x1f",
    b"0b1",
    b"1_0",
    b'"' + b"x" * 5_000 + b'"',
    b"[" * 50 + b"]" * 50,
    b'"\xc3\xa9\xf0\x9f\x98\x80"',
    b'"%"',
    b'"a = "',
    b'"x >"',
    b"[" * 3_000,
    b"{a=" * 2_000,
    b"1" * 5_000,
    b"1." + b"0" * 5_000,
    b'"""' + b"\n" * 5_000 + b'"""',
)
_LINES: Final = (
    b"[brokers]",
    b"[brokers.b1]",
    b"[[brokers]]",
    b"[security]",
    b"[[links]]",
    b"[[clients]]",
    b"[[access]]",
    b"[limit]",
    b"[token]",
    b"[ship]",
    b"[tracking]",
    b"[balancing]",
    b"[congestion]",
    b"[a.b.c.d]",
    b"[",
    b"[[x]",
    b'between = ["b1", "b1"]',
    b"port = 1",
    b'pubends = [""]',
    b'name = "x"',
    b"= 1",
    b"a.b.c = 1",
    b"\x00",
    b"\xff",
    b'"" = 1',
    b"# \xff",
    b'rate = "1XB"',
    b'profile = "swift"',
    b'groups = [{name = "a"}]',
    b'clients = "%"',
    b"a." * 300 + b"b = 1",
    b"[" + b"a." * 300 + b"b]",
)


def overlay_files_inside(rng: Random) -> None:
    """One seed's share of a soak."""
    coverage, corpus, findings = Coverage("penstock.live"), Corpus[bytes](rng), Findings()
    with TemporaryDirectory(prefix="penstock-files-") as folder:
        path = Path(folder) / "overlay.toml"
        for _ in range(FILES_PER_SEED):
            base = corpus.pick() if len(corpus) and rng.random() < 0.4 else rng.choice((_WHOLE, _WHOLE, _SMALL))
            content = _changed(base, rng)
            try:
                if rng.random() < _WATCHED_SHARE:
                    lines = coverage.lines
                    with coverage.watching():
                        try_file(path, content)
                    if coverage.lines > lines:
                        corpus.keep(content)
                else:
                    try_file(path, content)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is what we look for
                findings.add(error, f"file of {len(content)} bytes: {content[-1_500:]!r}")
    findings.raise_if_any()


def try_file(path: Path, content: bytes) -> None:
    """Fail if a file with this content is not handled as it must be."""
    path.write_bytes(content)
    try:
        with turn():
            overlay = load_overlay(path)
            for name in overlay.brokers:
                overlay.check(name)
                overlay.settings_for(name)
    except ConfigError as error:
        said = str(error)
        check_words(said, besides=content.decode(errors="replace"))
        if len(said) > _REASON_CHARS_MAX:
            raise Fault(f"a complaint of {len(said):,} characters: {said[:200]!r}") from None
        if str(path) not in said:
            raise Fault(f"a complaint that does not name the file: {said!r}") from None


def _changed(content: bytes, rng: Random) -> bytes:
    lines = content.split(b"\n")
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(lines))
        kind = rng.randrange(8)
        if kind < 3 and b"=" in lines[place]:
            lines[place] = lines[place].partition(b"=")[0] + b"= " + rng.choice(_VALUES)
        elif kind == 3:
            lines.insert(place, rng.choice(_LINES))
        elif kind == 4 and len(lines) > 1:
            del lines[place]
        elif kind == 5:
            lines.insert(rng.randrange(len(lines)), lines[place])
        elif kind == 6 and lines[place]:
            data = bytearray(lines[place])
            data[rng.randrange(len(data))] = rng.randrange(256)
            lines[place] = bytes(data)
        else:
            key, joint, value = lines[rng.randrange(len(lines))].partition(b"=")
            lines[place] = lines[place].partition(b"=")[0] + joint + value
            del key
    return b"\n".join(lines)[:100_000]
