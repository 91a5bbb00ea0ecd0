"""The overlay is asked for before Spark starts, and bad options and absent brokers are told then."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import PLAN, running
from penstock.lab.demo_overlay import free_ports
from penstock.model.errors import MisuseError
from penstock.pipeline.archive.failures import ArchiveError
from penstock.pipeline.archive.overlays import overlay_of
from penstock.pipeline.archive.settings import ArchiveSettings

pytest.importorskip("pyspark")


def test_a_broker_tells_its_overlay(tmp_path: Path) -> None:
    ports = dict(zip(PLAN.pubends, free_ports(len(PLAN.pubends)), strict=True))
    file = tmp_path / "overlay.toml"
    file.write_text(PLAN.toml(ports))
    with running(file, list(ports)):
        assert overlay_of(ArchiveSettings(f"penstock://127.0.0.1:{ports['sb1']}", "lake")) == "demo"


def test_an_absent_broker_is_told_in_one_line() -> None:
    settings = ArchiveSettings("penstock://127.0.0.1:1", "lake", source={"retryTimeoutMs": "0"})
    with pytest.raises(ArchiveError, match="no broker can be reached"):
        overlay_of(settings)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (ArchiveSettings("nonsense://x", "lake"), "nonsense"),
        (ArchiveSettings("penstock://127.0.0.1:1", "lake", start="soon"), "'soon' is none of earliest, latest"),
        (ArchiveSettings("penstock://127.0.0.1:1", "lake", source={"key": "k"}), "certificate and key need ca"),
    ],
)
def test_bad_options_are_misuse(settings: ArchiveSettings, complaint: str) -> None:
    with pytest.raises(MisuseError, match=complaint):
        overlay_of(settings)
