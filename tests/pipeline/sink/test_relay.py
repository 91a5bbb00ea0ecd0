"""The relay in this process: from one pubend to the other, once, and again for what came meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.client.sync import connect_sync
from penstock.lab.demo_overlay import DemoOverlay
from penstock.model.message import Message
from penstock.pipeline.sink.relay import main, parser, start_relay
from pipeline.sink.test_publishing import logged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIMIT_S = 60


@pytest.mark.live
def test_what_is_published_to_one_pubend_is_repeated_at_the_other(
    spark: SparkSession, overlay: DemoOverlay, tmp_path: Path
) -> None:
    url = overlay.url("b1")
    options = ["--broker", url, "--pubend", "b1.in", "--to-pubend", "b1.out", "--folder", str(tmp_path), "--once"]
    wanted = parser().parse_args([*options, "--columns", "number long"])
    with connect_sync(url) as client:
        client.publish_many([Message({"number": number}) for number in range(50)], pubend="b1.in")
    assert start_relay(spark, wanted).awaitTermination(LIMIT_S)
    assert sorted(map(str, logged(overlay, "b1.out"))) == sorted(map(str, range(50)))


def test_misuse_is_told_without_spark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    needed = ["--broker", "penstock://b1", "--pubend", "a", "--to-pubend", "b", "--folder", str(tmp_path)]
    assert main([*needed, "--master", "moon"]) == 2
    assert "master 'moon' is not one of" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--pubend", "a"])
