"""The options by which every command of ``penstock pipeline`` says where and how Spark runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

__all__ = ["DriverMemory", "EventLog", "ExecutorMemory", "Master", "Parallelism"]

Master: TypeAlias = Annotated[
    str, typer.Option(metavar="URL", help="Where Spark runs: `local[*]` is here on all cores; or `spark://HOST:PORT`.")
]
DriverMemory: TypeAlias = Annotated[
    str, typer.Option(metavar="SIZE", help="Memory for Spark's Java beside this command, such as `2g`.")
]
ExecutorMemory: TypeAlias = Annotated[
    str, typer.Option(metavar="SIZE", help="Memory for each executor of a cluster, such as `2g`.")
]
Parallelism: TypeAlias = Annotated[
    int | None, typer.Option(metavar="N", help="Tasks at a time; as many as there are cores, if not said.")
]
EventLog: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Folder for Spark's event log, for its history server.")
]
