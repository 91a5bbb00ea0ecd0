"""A profile of a made lake, on Spark, beside one made by plain loops."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from penstock.model.errors import MisuseError
from penstock.model.reporting import QuietReporter
from penstock.pipeline.profile.job import run_profile
from penstock.pipeline.time_span import TimeSpan
from penstock.selectors.selector import Selector
from pipeline.made_lakes import T0_MS, publication, put, quote_lake, subscription

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_profile_is_what_plain_loops_find(spark: SparkSession, tmp_path: Path) -> None:
    workload = quote_lake(tmp_path)
    quotes = workload.sample(600)
    found = run_profile(spark, str(tmp_path), TimeSpan(), QuietReporter(), samples=600)
    window = found.window
    assert (window.publications, window.first_ms, window.last_ms) == (600, T0_MS, T0_MS + 599_000)
    assert window.sampled == 600
    assert len(found.subscriptions) == 60
    for number, text in enumerate(found.selectors):
        wanted = [Selector.parse(text).matches(quote) for quote in quotes]
        assert int(found.messages[number]) == sum(wanted), text
        assert int(np.bitwise_count(found.bits[number]).sum()) == sum(wanted), text
    uses = {each.name: each for each in found.attributes}
    assert uses["class"].messages == 600
    assert uses["class"].subscriptions == 60
    assert uses["symbol"].values == pytest.approx(len({quote["symbol"] for quote in quotes}), rel=0.2)
    load = {each.broker: each for each in found.brokers}
    any_wants = sum(
        any(Selector.parse(found.selectors[each.selector]).matches(quote) for each in found.by_broker["b1"])
        for quote in quotes
    )
    assert load["b1"].input_msg_s == pytest.approx(any_wants / window.seconds)
    some = run_profile(spark, str(tmp_path), TimeSpan(T0_MS + 100_000, T0_MS + 200_000), QuietReporter(), samples=50)
    assert some.window.publications == 100
    assert 20 <= some.window.sampled <= 80


def test_subscriptions_count_as_they_are_now_and_the_systems_messages_do_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    put(tmp_path, "publications", [publication(0, {"n": 1}), publication(1, {"n": 2, "$class": "PIE"})], pubend="q")
    rows = [subscription(1, "n > 0"), subscription(1, "n > 0", sequence=2, ended=True), subscription(2, "n = 1")]
    put(tmp_path, "subscriptions", [*rows, subscription(3, None)], broker="b1")
    found = run_profile(spark, str(tmp_path), TimeSpan(), QuietReporter())
    assert ([each.number for each in found.subscriptions], found.unrecorded) == ([2], 1)
    assert found.window.publications == 1
    again = run_profile(spark, str(tmp_path), TimeSpan(), QuietReporter(), with_ended=True)
    assert [each.number for each in again.subscriptions] == [1, 2]
    with pytest.raises(MisuseError, match="no publications in this time range"):
        run_profile(spark, str(tmp_path), TimeSpan(T0_MS + 10**7, None), QuietReporter())
