"""Errors in a request to the lab.

MisuseError
├── UnknownExperimentError   no experiment has that name
└── ParameterError           an experiment has no such parameter, or does not allow this value
"""

from __future__ import annotations

from penstock.model.errors import MisuseError

__all__ = ["ParameterError", "UnknownExperimentError"]


class UnknownExperimentError(MisuseError):
    """No experiment has that name."""


class ParameterError(MisuseError):
    """An experiment has no such parameter, or does not allow this value."""
