"""The lab's errors are misuse: the command line ends with 2."""

from __future__ import annotations

import pytest

from penstock.lab.frame.errors import ParameterError, UnknownExperimentError
from penstock.model import MisuseError


@pytest.mark.parametrize("kind", [ParameterError, UnknownExperimentError])
def test_every_error_of_the_lab_is_misuse(kind: type[Exception]) -> None:
    assert issubclass(kind, MisuseError)
