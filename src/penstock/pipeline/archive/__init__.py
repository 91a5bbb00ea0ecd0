"""The archive: copies a stream into the lake's table ``publications`` exactly once, continuously or up to now."""

from __future__ import annotations

from penstock.pipeline.archive.failures import ArchiveError
from penstock.pipeline.archive.running import Archive, archive_stream, overlay_of, run_archive, stop_signals
from penstock.pipeline.archive.settings import ArchiveSettings, duration_s
from penstock.pipeline.archive.summary import ArchiveSummary

__all__ = [
    "Archive",
    "ArchiveError",
    "ArchiveSettings",
    "ArchiveSummary",
    "archive_stream",
    "duration_s",
    "overlay_of",
    "run_archive",
    "stop_signals",
]
