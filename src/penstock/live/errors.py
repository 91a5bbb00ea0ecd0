"""Errors in the setup of a live broker, and the failure that stops a running one.

PenstockError
├── MisuseError
│   └── ConfigError          the overlay file; names file, line and key
│       ├── RestartError     the change needs a restart of the broker
│       ├── ExposedError     a broker would let anybody in without authentication
│       ├── StorageError     a broker's data folder is missing, or cannot be used
│       └── TlsError         a certificate, key or authority cannot be used
└── NodeFailedError          a running broker failed, and had to stop
    └── SupersededError      a later life of it runs elsewhere
"""

from __future__ import annotations

from penstock.model.errors import MisuseError, PenstockError

__all__ = [
    "ConfigError",
    "ExposedError",
    "NodeFailedError",
    "RestartError",
    "StorageError",
    "SupersededError",
    "TlsError",
]


class ConfigError(MisuseError):
    """The overlay file has something invalid in it."""


class RestartError(ConfigError):
    """A running broker cannot apply a changed overlay file without a restart."""


class ExposedError(ConfigError):
    """A broker would let anybody in without authentication."""


class StorageError(ConfigError):
    """A broker needs a data folder, but has none or cannot use it."""


class TlsError(ConfigError):
    """A certificate, a key or an authority cannot be used."""


class NodeFailedError(PenstockError):
    """A running broker failed, and had to stop."""


class SupersededError(NodeFailedError):
    """A later life of the broker runs elsewhere."""
