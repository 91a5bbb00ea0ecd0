"""Errors of set-up are the caller's misuse."""

from __future__ import annotations

import pytest

from penstock.live.errors import ConfigError, ExposedError, NodeFailedError, StorageError, TlsError
from penstock.model.errors import MisuseError, PenstockError


@pytest.mark.parametrize("kind", [ConfigError, ExposedError, StorageError, TlsError])
def test_wrong_set_up_is_misuse(kind: type[Exception]) -> None:
    assert issubclass(kind, MisuseError)
    assert issubclass(kind, ConfigError)


def test_the_end_of_a_running_broker_is_nobodys_misuse() -> None:
    assert issubclass(NodeFailedError, PenstockError)
    assert not issubclass(NodeFailedError, MisuseError)
