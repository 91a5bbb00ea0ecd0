from __future__ import annotations

import pytest

from penstock.model.errors import MisuseError
from penstock.pipeline.sink.errors import SinkError, SinkOptionError
from penstock.pipeline.source.errors import readable


@pytest.mark.parametrize("kind", [SinkError, SinkOptionError])
def test_errors_of_the_sink_reach_the_user_as_they_are(kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"^so it is$") as caught, readable():
        raise kind("so it is")
    assert type(caught.value) is kind


def test_only_options_are_misuse() -> None:
    assert issubclass(SinkOptionError, MisuseError)
    assert not issubclass(SinkError, MisuseError)
