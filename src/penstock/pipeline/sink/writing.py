"""The writers that Spark calls: tasks stage rows and the driver commits them, for batches and for streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from penstock.pipeline.lake.files import LocalFiles, files_at
from penstock.pipeline.sink.committing import BATCH_FOLDER, STREAM_FOLDER, Committer, Publishing
from penstock.pipeline.sink.errors import SinkOptionError
from penstock.pipeline.sink.options import SinkOptions, parse_sink_options
from penstock.pipeline.sink.publishing import Writer, publishing_at
from penstock.pipeline.sink.rows import RowReader
from penstock.pipeline.sink.staging import Staged, told, write_rows
from penstock.pipeline.source.errors import readable

__all__ = ["PenstockStreamWriter", "PenstockWriter", "batch_writer", "stream_writer"]

_QUERY: Final = "sql.streaming.queryId"
"""The task property with the id of the streaming query, which stays the same across restarts."""


def batch_writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> PenstockWriter:
    """Create the writer of a batch from the user's options."""
    _check_appends(overwrite=overwrite)
    return PenstockWriter(parse_sink_options(options), schema)


def stream_writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> PenstockStreamWriter:
    """Create the writer of a stream from the user's options."""
    _check_appends(overwrite=overwrite)
    return PenstockStreamWriter(parse_sink_options(options), schema)


class PenstockWriter(DataSourceArrowWriter):
    """A batch write."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._options, self._rows = options, _reader(options, schema)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Stage the rows of one task."""
        return _staged(self._options, self._rows, iterator, BATCH_FOLDER)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the staged rows."""
        with readable():
            _committer(self._options).commit_batch(self._options.batch, told(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Discard the staged rows."""
        with readable():
            _committer(self._options).discard(told(messages))


class PenstockStreamWriter(DataSourceStreamArrowWriter):
    """A streaming write."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        if options.batch:
            raise SinkOptionError("option batch is for batch writes: a stream has numbers of its own")
        self._options, self._rows = options, _reader(options, schema)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Stage the rows of one task."""
        return _staged(self._options, self._rows, iterator, STREAM_FOLDER)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - the name is Spark's
        """Publish the staged rows."""
        with readable():
            _committer(self._options).commit_stream(batchId, told(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803, ARG002
        """Discard the staged rows."""
        with readable():
            _committer(self._options).discard(told(messages))


def _reader(options: SinkOptions, schema: StructType) -> RowReader:
    return RowReader(schema, options.content_type, pubend=options.pubend, pubend_column=options.pubend_column)


def _staged(options: SinkOptions, reader: RowReader, batches: Iterator[Any], folder: str) -> Staged:
    context = TaskContext.get()
    query = context.getLocalProperty(_QUERY) if context is not None else None
    with readable():
        files = _files(options)
        rows = (row for batch in batches for row in reader.rows(batch))
        return Staged(write_rows(rows, files.root, folder), query or "")


def _committer(options: SinkOptions) -> Committer:
    def opening(writer: Writer) -> AbstractContextManager[Publishing]:
        return publishing_at(options.connecting, writer)

    lock_s = options.connecting.retry_ms / 1000
    return Committer(_files(options), options.pubend, opening, forgotten=options.forgotten, lock_s=lock_s)


def _files(options: SinkOptions) -> LocalFiles:
    return files_at(options.staging)


def _check_appends(*, overwrite: bool) -> None:
    """Refuse to overwrite: published messages cannot be taken back."""
    if overwrite:
        raise SinkOptionError("messages cannot be overwritten: use mode append")
