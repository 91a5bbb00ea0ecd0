from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from penstock.model.errors import MisuseError
from penstock.pipeline.folders import read_folder_table
from penstock.pipeline.lake.errors import LakeError, LakeMismatchError
from penstock.pipeline.profile.store import default_folder, load_profile, profile_summary, save_profile
from pipeline.profile.profiles import profile_of, quote_profile


def test_a_profile_is_read_as_it_was_written(tmp_path: Path) -> None:
    profile = replace(quote_profile(1, 50, silent=3), unrecorded=7)
    found = load_profile(save_profile(profile, tmp_path / "p"))
    assert (found.lake, found.window, found.unrecorded) == (profile.lake, profile.window, 7)
    assert (found.selectors, found.subscriptions) == (profile.selectors, profile.subscriptions)
    assert found.attributes == profile.attributes
    assert np.array_equal(found.messages, profile.messages)
    assert np.array_equal(found.bits, profile.bits)
    assert found.brokers == profile.brokers


def test_tables_are_for_anybody(tmp_path: Path) -> None:
    save_profile(
        profile_of([("b1", "n < 4"), ("b1", "n < 2"), ("b2", "n < 2")], [{"n": n} for n in range(5)]), tmp_path / "p"
    )
    rows = read_folder_table(tmp_path / "p", "subscriptions")
    assert rows["selector"] == ["n < 4", "n < 2", "n < 2"]
    assert rows["is_covering"] == [True, False, True]
    assert rows["alone_per_s"] == pytest.approx([2.0, 0.0, 2.0])
    assert read_folder_table(tmp_path / "p", "overlaps")["samples"] == [2, 2]
    assert read_folder_table(tmp_path / "p", "brokers")["broker"] == ["b1", "b2"]


def test_the_summary_has_the_busiest_first_and_counts_the_silent() -> None:
    summary = profile_summary(quote_profile(1, 100, silent=4))
    rates = [each["bytes_per_s"] for each in summary["busiest"]]
    assert rates == sorted(rates, reverse=True)
    assert summary["subscriptions"] == 104
    assert summary["silent"] >= 4


def test_what_is_no_profile_is_told(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="make one with: penstock pipeline profile"):
        load_profile(tmp_path)
    folder = save_profile(quote_profile(1, 5), tmp_path / "p")
    (folder / "selectors.parquet").write_bytes(b"no")
    with pytest.raises(LakeError, match=r"selectors\.parquet"):
        load_profile(folder)
    summary = json.loads((folder / "profile.json").read_text())
    (folder / "profile.json").write_text(json.dumps({**summary, "format": 99}))
    with pytest.raises(LakeMismatchError, match="format 99"):
        load_profile(folder)


def test_a_profile_is_in_its_lake_unless_there_is_none(tmp_path: Path) -> None:
    assert default_folder(str(tmp_path)) == tmp_path / "_profile"
    with pytest.raises(MisuseError, match="there is no lake"):
        default_folder(str(tmp_path / "no"))
