"""Arenas for attacks: broker processes that several tests share as long as none of them was harmed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from bench.hostile.arena import Arena, ArenaPlan
from bench.hostile.trees import Tree


class Arenas:
    """Running arenas by their plan; one in which a test failed is not used again."""

    def __init__(self, make_folder: Callable[[], Path]) -> None:
        self._make_folder = make_folder
        self._running: dict[str, tuple[Arena, ExitStack]] = {}

    @contextmanager
    def use(self, plan: ArenaPlan) -> Iterator[Arena]:
        key = repr(plan)
        if key not in self._running:
            stack = ExitStack()
            self._running[key] = stack.enter_context(Arena(Tree("this"), plan, self._make_folder())), stack
        arena, stack = self._running[key]
        arena.begin()
        try:
            yield arena
        except BaseException:
            del self._running[key]
            stack.close()
            raise

    def close(self) -> None:
        for _, stack in self._running.values():
            stack.close()


@pytest.fixture(scope="module")
def arenas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arenas]:
    made = Arenas(lambda: tmp_path_factory.mktemp("arena"))
    yield made
    made.close()
