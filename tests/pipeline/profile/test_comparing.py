from __future__ import annotations

from pathlib import Path

import pytest

from penstock.model.errors import MisuseError
from penstock.pipeline.profile.comparing import balancing_difference


def test_the_largest_difference_of_a_result_is_found(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text('{"measured": {"max_difference_end_input": 0.02, "max_difference_end_delay": 0.07, "sessions": 9}}')
    assert balancing_difference(path) == 0.07


@pytest.mark.parametrize("content", ["{}", "[", '{"measured": {"lost": 0}}'])
def test_what_is_no_such_result_is_told(tmp_path: Path, content: str) -> None:
    path = tmp_path / "r.json"
    path.write_text(content)
    with pytest.raises(MisuseError, match="is no result of"):
        balancing_difference(path)
    with pytest.raises(MisuseError, match="cannot read"):
        balancing_difference(tmp_path / "no")
