from __future__ import annotations

import pytest

from penstock.model.errors import MisuseError
from penstock.pipeline.source.errors import SourceError, SourceOptionError, one_line, readable
from penstock.selectors import Selector, SelectorError
from penstock.session.errors import ConnectionFailedError, RefusedError


def test_a_selector_error_names_text_problem_and_place_on_one_line() -> None:
    with pytest.raises(SelectorError) as caught:
        Selector.parse("volume >")
    assert one_line(caught.value).startswith("selector 'volume >': expected")
    assert one_line(caught.value).endswith("at character 9")


def test_several_lines_become_one_without_the_pointer() -> None:
    assert one_line(RefusedError("read", "bad\n  volume >\n          ^")) == "the broker refused to read: bad; volume >"
    assert one_line(OSError()) == "OSError"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RefusedError("read its log", "no"), SourceError),
        (ConnectionFailedError("away"), SourceError),
        (OSError("disk"), SourceError),
        (MisuseError("wrong"), SourceOptionError),
        (SourceOptionError("wrong"), SourceOptionError),
        (SourceError("lost"), SourceError),
    ],
)
def test_errors_become_one_of_two_kinds_and_keep_their_text(error: Exception, kind: type[Exception]) -> None:
    with pytest.raises(kind) as caught, readable():
        raise error
    assert type(caught.value) is kind
    assert str(caught.value) == str(error)


def test_a_bug_stays_a_bug() -> None:
    with pytest.raises(ZeroDivisionError), readable():
        raise ZeroDivisionError


def test_only_in_a_process_of_sparks_is_the_trace_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in ("SPARK_HIDE_TRACEBACK", "PYTHON_WORKER_FACTORY_SECRET", "PYTHON_UNIX_DOMAIN_ENABLED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("SPARK_AUTH_SOCKET_TIMEOUT", raising=False)
    with pytest.raises(SourceError), readable():
        raise SourceError("x")
    assert "SPARK_HIDE_TRACEBACK" not in os.environ
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_SECRET", "x")
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    with pytest.raises(SourceError), readable():
        raise SourceError("x")
    assert os.environ["SPARK_HIDE_TRACEBACK"] == "1"
