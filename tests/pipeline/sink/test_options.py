from __future__ import annotations

import pytest

from penstock.model.errors import MisuseError
from penstock.pipeline.sink.options import SINK_OPTIONS, SinkOptions, parse_sink_options
from penstock.pipeline.source.options import Connecting

NEEDED = {"broker": "penstock://b1:7000", "pubend": "b1.a", "staging": "/staging"}


def test_names_are_read_in_any_case_and_what_is_sparks_own_is_left_to_it() -> None:
    given = {**NEEDED, "CONTENTTYPE": "text/plain", "batch": " day 1 ", "checkpointlocation": "x", "queryname": "q"}
    wanted = SinkOptions(Connecting("penstock://b1:7000"), "b1.a", "/staging", "day 1", "text/plain")
    assert parse_sink_options(given) == wanted


def test_the_connection_is_said_as_for_the_source() -> None:
    options = parse_sink_options({**NEEDED, "token": "s", "retryTimeoutMs": "7"})
    assert (options.connecting.token, options.connecting.retry_ms) == ("s", 7)
    assert "s3cret" not in repr(parse_sink_options({**NEEDED, "token": "s3cret"}))


def test_with_a_column_for_it_the_pubend_may_be_absent() -> None:
    given = {**NEEDED, "PubendColumn": " target "}
    assert (parse_sink_options(given).pubend, parse_sink_options(given).pubend_column) == ("b1.a", "target")
    del given["pubend"]
    assert (parse_sink_options(given).pubend, parse_sink_options(given).pubend_column) == ("", "target")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"broker": ""}, "option broker is missing"),
        ({"pubend": " "}, "option pubend is missing"),
        ({"staging": ""}, "option staging is missing"),
        ({"stageing": "x"}, "did you mean staging"),
        ({"selector": "TRUE"}, "no option 'selector' for writing"),
        ({"path": "x"}, "no option 'path'"),
        ({"forgotten": "maybe"}, "not one of fail, publish"),
        ({"batch": "x" * 201}, "201 characters"),
        ({"retryTimeoutMs": "soon"}, "retryTimeoutMs"),
        ({"broker": "http://b1"}, "penstock://"),
    ],
)
def test_what_cannot_be_is_named(change: dict[str, str], says: str) -> None:
    with pytest.raises(MisuseError, match=says):
        parse_sink_options({**NEEDED, **change})


def test_every_option_is_explained() -> None:
    assert all(SINK_OPTIONS.values())
