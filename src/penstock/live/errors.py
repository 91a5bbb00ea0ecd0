"""What can be wrong with how a live broker was set up, and what ends it.

PenstockError
├── MisuseError
│   └── ConfigError          the overlay file; names file, line and key
│       ├── RestartError     a running broker would have to start anew for it
│       ├── ExposedError     a broker would listen to the world without asking who is there
│       ├── StorageError     a broker's data folder is missing, or cannot be used
│       └── TlsError         a certificate, key or authority cannot be used
└── NodeFailedError          a running broker cannot go on, and had to stop
"""

from __future__ import annotations

from penstock.model.errors import MisuseError, PenstockError

__all__ = ["ConfigError", "ExposedError", "NodeFailedError", "RestartError", "StorageError", "TlsError"]


class ConfigError(MisuseError):
    """The overlay file says something that cannot be."""


class RestartError(ConfigError):
    """A changed overlay file says something that a running broker cannot put into force."""


class ExposedError(ConfigError):
    """A broker would be reachable from outside by anybody."""


class StorageError(ConfigError):
    """A broker has no data folder though it needs one, or one that it cannot use."""


class TlsError(ConfigError):
    """A certificate, a key or an authority cannot be used."""


class NodeFailedError(PenstockError):
    """A running broker cannot go on, and had to stop."""
