from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.tracking.keys import HistoryKey, Phase, history_key

keys = st.builds(
    HistoryKey, st.sampled_from(Phase), st.integers(0, 2**32 - 1), st.text(max_size=5), is_late=st.booleans()
)


@given(key=keys)
def test_a_key_is_read_back_from_its_text(key: HistoryKey) -> None:
    assert history_key(str(key)) == key


def test_texts_of_keys_are_for_people() -> None:
    assert str(HistoryKey(Phase.ROUTE, 7)) == "route/7"
    assert str(HistoryKey(Phase.DELIVER, 7, "alice").late) == "deliver~late/7/alice"


@pytest.mark.parametrize("text", ["", "route", "route/x", "walk/7", "route~later/7", "route~/7"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        history_key(text)
