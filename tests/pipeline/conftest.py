"""What the Spark tests share: one session, one cluster, and a visible reason to skip when there is no Spark here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from penstock.pipeline.errors import JavaMissingError, SparkMissingError
from penstock.pipeline.session import SessionSettings, check_requirements, open_session
from pipeline.cluster import standalone_cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_FIXTURES = frozenset({"spark", "spark_cluster", "spark_ready"})
# Tests are over before the second compiler of a Java has done them any good, and it wants most of a core.
# With one compiler Java reserves 48 MB for compiled code, which all these tests in one session fill: then Spark stops.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC")
SETTINGS = SessionSettings(master="local[2]", driver_memory="1g", parallelism=2, app_name="penstock tests")


def missing() -> str | None:
    """Why there can be no Spark here."""
    try:
        check_requirements()
    except (JavaMissingError, SparkMissingError) as error:
        return f"Spark tests: {str(error).partition(';')[0]}"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without Spark its tests are marked as skipped here, so that the list at the end has a line per file."""
    reason = missing()
    for item in items:
        if reason is not None and SPARK_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def spark_ready() -> None:
    """For tests that start Spark in a process of their own."""
    reason = missing()
    assert reason is None, reason


@pytest.fixture(scope="session")
def spark(spark_ready: None) -> Iterator[SparkSession]:
    """The one session of all tests."""
    session = open_session(SETTINGS)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def spark_cluster(spark_ready: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a cluster of two workers; a session on it needs a process of its own."""
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as master:
        yield master
