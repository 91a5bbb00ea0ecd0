"""What can be wrong with how a live broker was set up.

MisuseError
└── ConfigError          the overlay file; names file, line and key
    ├── ExposedError     a broker would listen to the world without asking who is there
    └── TlsError         a certificate, key or authority cannot be used
"""

from __future__ import annotations

from penstock.model.errors import MisuseError

__all__ = ["ConfigError", "ExposedError", "TlsError"]


class ConfigError(MisuseError):
    """The overlay file says something that cannot be."""


class ExposedError(ConfigError):
    """A broker would be reachable from outside by anybody."""


class TlsError(ConfigError):
    """A certificate, a key or an authority cannot be used."""
