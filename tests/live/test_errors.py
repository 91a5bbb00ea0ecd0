"""Errors of set-up are the caller's misuse."""

from __future__ import annotations

import pytest

from penstock.live.errors import ConfigError, ExposedError, TlsError
from penstock.model.errors import MisuseError


@pytest.mark.parametrize("kind", [ConfigError, ExposedError, TlsError])
def test_wrong_set_up_is_misuse(kind: type[Exception]) -> None:
    assert issubclass(kind, MisuseError)
    assert issubclass(kind, ConfigError)
