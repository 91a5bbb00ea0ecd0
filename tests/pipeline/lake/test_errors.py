"""Errors of the lake: whose mistake each is decides the exit code."""

from __future__ import annotations

from penstock.model.errors import MisuseError, PenstockError
from penstock.pipeline.lake.errors import LakeBusyError, LakeError, LakeMismatchError


def test_only_what_the_caller_can_mend_is_misuse() -> None:
    assert issubclass(LakeBusyError, MisuseError)
    assert issubclass(LakeMismatchError, MisuseError)
    assert issubclass(LakeError, PenstockError)
    assert not issubclass(LakeError, MisuseError)
