"""Republishes the messages of one pubend at another, as a Spark stream: ``python -m penstock.pipeline.sink.relay``.

The smallest program that uses both the source and the sink. The experiment ``sink-kill9`` kills it; it also moves
messages between overlays, exactly once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from penstock.model.errors import MisuseError, PenstockError
from penstock.pipeline.session import SessionSettings, using_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["main", "parser", "start_relay"]

_COLUMNS: Final = "attributes map<string,string>, payload binary"


def parser() -> argparse.ArgumentParser:
    """The command's argument parser."""
    made = argparse.ArgumentParser(prog="python -m penstock.pipeline.sink.relay", description=__doc__)
    made.add_argument("--broker", required=True, help="the brokers to read from: penstock://host:port,host:port")
    made.add_argument("--pubend", required=True, help="the pubend to read")
    made.add_argument("--to-broker", default="", help="the brokers to publish at; the same if not given")
    made.add_argument("--to-pubend", required=True, help="the pubend to publish to")
    made.add_argument("--columns", default="", help="attributes with a type: number long; all as text if not given")
    made.add_argument("--folder", required=True, help="for Spark's checkpoint and staged rows; kept between runs")
    made.add_argument("--every", default="1 second", help="time between batches")
    made.add_argument("--once", action="store_true", help="stop once everything available now is published")
    made.add_argument("--partitions", type=int, default=2, help="tasks that publish")
    made.add_argument("--master", default="local[*]", help="where Spark runs")
    return made


def start_relay(spark: SparkSession, wanted: argparse.Namespace) -> StreamingQuery:
    """Start the stream."""
    source = {"broker": wanted.broker, "pubends": wanted.pubend, "startingPosition": "earliest"}
    columns = f"{wanted.columns}, payload binary" if wanted.columns else _COLUMNS
    frame = spark.readStream.format("penstock").options(**source).schema(columns).load()
    sink = {
        "broker": wanted.to_broker or wanted.broker,
        "pubend": wanted.to_pubend,
        "staging": f"{wanted.folder}/staging",
        "checkpointLocation": f"{wanted.folder}/checkpoint",
    }
    writer = frame.repartition(wanted.partitions).writeStream.format("penstock").options(**sink)
    writer = writer.trigger(availableNow=True) if wanted.once else writer.trigger(processingTime=wanted.every)
    return writer.queryName("penstock relay").start()


def main(arguments: Sequence[str] | None = None) -> int:
    """Relay until the end, or forever; returns the exit code."""
    wanted = parser().parse_args(arguments)
    try:
        settings = SessionSettings(wanted.master, "512m", "512m", wanted.partitions, app_name="penstock relay")
        with using_session(settings) as spark:
            start_relay(spark, wanted).awaitTermination()
    except PenstockError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, MisuseError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
