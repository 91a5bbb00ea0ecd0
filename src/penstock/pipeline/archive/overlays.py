"""Asks a broker which overlay it is in, before anything is archived from it."""

from __future__ import annotations

from penstock.client.errors import ClientError
from penstock.pipeline.archive.failures import ArchiveError
from penstock.pipeline.archive.settings import ArchiveSettings

__all__ = ["overlay_of"]


def overlay_of(settings: ArchiveSettings) -> str:
    """The name of the overlay; checks the options of the source on the way, without Spark."""
    from penstock.pipeline.source.link import opened
    from penstock.pipeline.source.options import parse_options

    options = parse_options(settings.source_options())
    try:
        with opened(options.connecting) as client:
            return str(client.status()["overlay"])
    except ClientError as error:
        raise ArchiveError(str(error)) from None
