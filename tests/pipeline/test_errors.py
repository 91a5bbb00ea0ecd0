"""Mistakes of the user and failures of Spark end commands differently."""

from __future__ import annotations

from penstock.model.errors import MisuseError, PenstockError
from penstock.pipeline.errors import JavaMissingError, SessionError, SparkMissingError, SweepError


def test_what_the_user_can_mend_is_misuse_and_a_failure_of_spark_is_not() -> None:
    assert all(issubclass(each, MisuseError) for each in (JavaMissingError, SparkMissingError, SweepError))
    assert issubclass(SessionError, PenstockError)
    assert not issubclass(SessionError, MisuseError)
