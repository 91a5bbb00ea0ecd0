from __future__ import annotations

from pathlib import Path

import pytest

from penstock.model.errors import MisuseError
from penstock.pipeline.profile.capacities import REFERENCE, Capacity, parse_capacities, parse_capacity


def test_capacities_are_multiples_bandwidths_or_both_figures() -> None:
    found = parse_capacities(["b1=2,b2=8kbps", "b3=1gbps:2ms+30ns"])
    assert found["b1"] == REFERENCE.times(2)
    assert found["b2"] == Capacity(1000.0, REFERENCE.delay_base_s, REFERENCE.delay_slope_s)
    assert found["b3"] == Capacity(125e6, 2e-3, 30 * 1e-9)
    assert list(found) == ["b1", "b2", "b3"]


def test_a_file_has_a_line_per_broker(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('b1 = 2\n"b.2" = "8kbps"\n')
    assert list(parse_capacities([str(tmp_path / "c.toml")])) == ["b1", "b.2"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("b1=fast", "capacity 'fast' is not understood"),
        ("b1=-1", "cannot have"),
        ("b1=0", "cannot have"),
        ("b1=0mbps", "bandwidth must be positive"),
        ("b1=1,b1=2", "named twice"),
        ("=1", "no name"),
        ("nosuch.toml", "cannot read capacities from nosuch.toml"),
    ],
)
def test_what_is_no_capacity_is_told(text: str, says: str) -> None:
    with pytest.raises(MisuseError, match=says):
        parse_capacities([text])


def test_a_file_that_is_none_is_told(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    for content, says in (("b1", "is not TOML"), ("b1 = true", "b1 is True"), ("", "no broker was given")):
        path.write_text(content)
        with pytest.raises(MisuseError, match=says):
            parse_capacities([str(path)])


def test_power_makes_everything_faster() -> None:
    assert parse_capacity("2", Capacity(10.0, 4.0, 2.0)) == Capacity(20.0, 2.0, 1.0)
