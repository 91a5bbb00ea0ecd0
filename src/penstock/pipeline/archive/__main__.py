"""Runs an archive as a process, without the command line: ``python -m penstock.pipeline.archive``.

For programs that start archives, such as the experiment ``archive-kill9``. People use ``penstock pipeline archive``,
which does the same and has more options.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from penstock.model.errors import MisuseError, PenstockError
from penstock.model.reporting import QuietReporter
from penstock.pipeline.archive.running import run_archive
from penstock.pipeline.archive.settings import ArchiveSettings, duration_s
from penstock.pipeline.lake.compaction import CompactionPolicy
from penstock.pipeline.session import SessionSettings, check_requirements

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Archive until the stream ends or a signal arrives; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m penstock.pipeline.archive", description="Archive a stream.")
    parser.add_argument("--broker", required=True, help="the broker, or several: penstock://host:port,host:port")
    parser.add_argument("--lake", required=True, help="the folder of the lake; made if it is not there")
    parser.add_argument("--every", default="10s", help="time between batches, such as 10s or 1m")
    parser.add_argument("--once", action="store_true", help="stop once everything available now is archived")
    parser.add_argument("--merge-files", type=int, default=8, help="how many small files to merge into one")
    parser.add_argument("--master", default="local[*]", help="where Spark runs")
    wanted = parser.parse_args(arguments)
    try:
        check_requirements()
        every_s = None if wanted.once else duration_s(wanted.every)
        compaction = CompactionPolicy(files_min=wanted.merge_files)
        settings = ArchiveSettings(wanted.broker, wanted.lake, every_s=every_s, compaction=compaction)
        session = SessionSettings(wanted.master, app_name="penstock archive")
        summary, _ = run_archive(settings, session, QuietReporter())
    except PenstockError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, MisuseError) else 1
    print(summary.line(), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
