"""The data source that Spark knows as ``penstock``: messages as rows, and rows as messages, in batches and streams."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from penstock.pipeline.source.batch import PenstockReader, PushingReader
from penstock.pipeline.source.columns import STANDARD, Columns, standard_ddl
from penstock.pipeline.source.errors import SourceOptionError, readable
from penstock.pipeline.source.options import SourceOptions, parse_options
from penstock.pipeline.source.stream import PenstockStreamReader

__all__ = ["PenstockSource"]


class PenstockSource(DataSource):
    """Format ``penstock``: ``open_session`` registers it, and ``spark.dataSource.register`` anywhere else."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "penstock"

    def schema(self) -> str:
        """The columns of every message, and those that the option declares."""
        with readable():
            return standard_ddl(self._parsed().columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """For ``spark.read``."""
        with readable():
            options, columns = self._checked(schema)
            return (PushingReader if options.pushdown else PenstockReader)(options, columns)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - the name is Spark's
        """For ``spark.readStream``."""
        with readable():
            return PenstockStreamReader(*self._checked(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """For ``frame.write``."""
        # Imported here because the sink builds on this package, and Spark has one name for both.
        from penstock.pipeline.sink.writing import batch_writer

        with readable():
            return batch_writer(dict(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """For ``frame.writeStream``."""
        from penstock.pipeline.sink.writing import stream_writer

        with readable():
            return stream_writer(dict(self.options), schema, overwrite=overwrite)

    def _parsed(self) -> SourceOptions:
        return parse_options(dict(self.options))

    def _checked(self, schema: StructType) -> tuple[SourceOptions, Columns]:
        options = self._parsed()
        columns = Columns(schema)
        # With the user's own schema, the option would be ignored silently.
        if options.columns and schema.names[: len(STANDARD)] != list(STANDARD):
            raise SourceOptionError(
                "give the option columns or a schema, not both: the schema has all columns there are"
            )
        return options, columns
