"""Of what Spark says when something failed, one line is told: the one that matters."""

from __future__ import annotations

import pytest

from penstock.model.errors import MisuseError
from penstock.pipeline.archive.failures import ArchiveError, telling, told

WRAPPED = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: An exception was raised.
Traceback (most recent call last):
  File "clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
pyspark.errors.exceptions.captured.PythonException: An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "worker.py", line 1, in main
penstock.pipeline.source.errors.SourceError: pubend q no longer has messages: they were trimmed

	at org.apache.spark.api.python.BasePythonRunner
SQLSTATE: XXKST"""

IN_A_LINE = (
    "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] "
    "Failed when Python streaming data source perform latestOffset: penstock.pipeline.source.errors.SourceError: "
    "survey of the logs: no answer within 30 s\n\tat org.apache.spark"
)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (IN_A_LINE, "survey of the logs: no answer within 30 s"),
        (WRAPPED, "pubend q no longer has messages: they were trimmed"),
        ("Traceback:\n  File x\nValueError: bad value", "ValueError: bad value"),
        (
            "x\npy4j.protocol.Py4JJavaError: An error occurred\nZeroDivisionError: one / zero",
            "ZeroDivisionError: one / zero",
        ),
        ("[CANNOT_DO] something of Spark's own\n\tat org.apache", "something of Spark's own"),
        ("java.lang.IllegalStateException: it is closed\n\tat x", "IllegalStateException: it is closed"),
        ("", "no reason is given"),
    ],
)
def test_the_line_that_matters_is_found(text: str, line: str) -> None:
    assert told(text) == line


def test_a_line_is_never_very_long() -> None:
    assert len(told("x" * 10_000)) < 600


def test_what_is_known_to_be_ours_stays_as_it_is() -> None:
    pytest.importorskip("py4j")
    misuse = MisuseError("no")
    with pytest.raises(MisuseError) as raised, telling():
        raise misuse
    assert raised.value is misuse
    with pytest.raises(MisuseError) as raised, telling(lambda: misuse):
        raise ValueError("wrapped")
    assert raised.value is misuse
    with pytest.raises(ArchiveError, match=r"^the cause$"), telling(lambda: ValueError("the cause")):
        raise ValueError("wrapped")


def test_java_that_has_gone_is_told_as_such() -> None:
    pytest.importorskip("py4j")
    with pytest.raises(ArchiveError, match="Spark's Java process has ended"), telling():
        raise ConnectionRefusedError(111, "refused")
