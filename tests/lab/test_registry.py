"""Every experiment of the lab is on exactly one list, and has a name of its own."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages

from penstock import lab
from penstock.lab import Experiment, registry


def listed() -> list[Experiment]:
    return [experiment for name in registry.__all__ for experiment in getattr(registry, name)]


def defined() -> Iterator[Experiment]:
    for module in walk_packages(lab.__path__, f"{lab.__name__}."):
        if module.name != registry.__name__:
            values = vars(import_module(module.name)).values()
            yield from (value for value in values if isinstance(value, Experiment))


def test_no_experiment_of_the_lab_is_left_out() -> None:
    assert {each.name for each in defined()} == {each.name for each in listed()}


def test_no_name_is_used_twice() -> None:
    names = [each.name for each in listed()]
    assert len(set(names)) == len(names)
