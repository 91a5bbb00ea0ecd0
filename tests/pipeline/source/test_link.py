from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from penstock.live.errors import TlsError
from penstock.pipeline.source.errors import SourceOptionError
from penstock.pipeline.source.link import Link, opened
from penstock.pipeline.source.options import Connecting
from penstock.session.errors import ConnectionFailedError

NOWHERE = Connecting("penstock://127.0.0.1:1", token="s3cret", connect_ms=100, retry_ms=0)  # noqa: S106


def test_a_broker_that_is_away_is_tried_and_then_named() -> None:
    problem = r"no broker can be reached, tried for 0 ms \(option retryTimeoutMs\): penstock://127.0.0.1:1: "
    with pytest.raises(ConnectionFailedError, match=problem), opened(NOWHERE):
        pass
    link = Link(NOWHERE)
    with pytest.raises(ConnectionFailedError, match=problem), link.client():
        pass
    link.close()


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(TlsError, match="nothing"), opened(Connecting("penstocks://h", ca=str(tmp_path / "nothing"))):
        pass
    missing = Connecting("penstock://h", token_file=str(tmp_path / "nothing"))
    with pytest.raises(SourceOptionError, match="nothing"), opened(missing):
        pass


def test_a_link_travels_without_its_connection_and_shows_no_token() -> None:
    link = pickle.loads(pickle.dumps(Link(NOWHERE)))  # noqa: S301
    assert "s3cret" not in repr(link)
    with pytest.raises(ConnectionFailedError), link.client():
        pass
