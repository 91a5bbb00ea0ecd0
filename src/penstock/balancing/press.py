"""PRESS: records which interests matched which recent publications, as bit vectors ([PADRES] section 4.1).

One bit for each publication sampled, one column for each unique subscription; 10,000 of them and 100 samples take one
megabit, as in the paper. Words come first and columns second, so that every query is a few operations on whole rows.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.model.errors import MisuseError

__all__ = ["Columns", "Press", "Words", "popcounts"]

Words: TypeAlias = npt.NDArray[np.uint64]
Columns: TypeAlias = npt.NDArray[np.int64]
_WORD: Final = 64


class Press:
    """The matching pattern of many subscriptions over a few publications.

    The paper's table 1, with the latest publication to the left:

    >>> press = Press(1, samples_max=6)
    >>> for matches, covered in ((1, 1), (1, 0), (1, 0), (0, 0), (1, 1), (1, 1)):
    ...     press.record(np.flatnonzero([matches]), is_covered=bool(covered))
    >>> press.text(0), press.css_text()
    ('110111', '110001')
    >>> press.rates(3.0).tolist(), press.added_rates(3.0).tolist()
    ([2.5], [1.0])
    """

    def __init__(self, columns: int, *, samples_max: int) -> None:
        if columns < 0 or samples_max < 1:
            raise MisuseError(f"cannot make bit vectors with {columns} columns and {samples_max} samples")
        words = -(-samples_max // _WORD)
        self.bits: Words = np.zeros((words, columns), np.uint64)
        """A bit for each publication and column; the first publication is the lowest bit of the first word."""
        self.css: Words = np.zeros(words, np.uint64)
        """A bit for each publication that the partner's covering set as a whole matches."""
        self.samples_max = samples_max
        self.taken = 0
        """Publications sampled so far."""

    @property
    def is_full(self) -> bool:
        """Whether all samples are taken."""
        return self.taken >= self.samples_max

    def record(self, columns: npt.NDArray[np.integer], *, is_covered: bool) -> None:
        """Record which columns a publication matched, and whether the partner's covering set did."""
        if self.is_full:
            return
        word, bit = divmod(self.taken, _WORD)
        mask = np.uint64(1 << bit)
        self.bits[word, columns] |= mask
        if is_covered:
            self.css[word] |= mask
        self.taken += 1

    def rates(self, input_msg_s: float) -> npt.NDArray[np.float64]:
        """Publications per second that each column wants (equation 2)."""
        return self._share(popcounts(self.bits)) * input_msg_s

    def added_rates(self, input_msg_s: float, css: Words | None = None) -> npt.NDArray[np.float64]:
        """How much each column would add to the partner's input: its bits that the covering set lacks."""
        covered = self.css if css is None else css
        return self._share(popcounts(self.bits & ~covered[:, None])) * input_msg_s

    def reduced_rates(self, input_msg_s: float, present: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
        """How much input falls if a column leaves: its bits that no other present column has."""
        alone = self.alone(present)
        return self._share(popcounts(self.bits & alone[:, None])) * input_msg_s

    def alone(self, present: npt.NDArray[np.bool_]) -> Words:
        """The publications that exactly one of the present columns wants."""
        bits = self.bits[:, present]
        if not bits.shape[1]:
            return np.zeros_like(self.css)
        once = np.bitwise_or.reduce(bits, axis=1)
        # A publication is wanted twice if a column and any column before it have it.
        before = np.bitwise_or.accumulate(bits, axis=1)
        twice = np.bitwise_or.reduce(before[:, :-1] & bits[:, 1:], axis=1)
        return np.asarray(once & ~twice)

    def wanted(self, present: npt.NDArray[np.bool_]) -> Words:
        """The publications that any of the present columns wants."""
        return np.asarray(np.bitwise_or.reduce(self.bits[:, present], axis=1, initial=np.uint64(0)))

    def share_of(self, words: Words) -> float:
        """The share of the sampled publications that are in these words."""
        return int(np.bitwise_count(words).sum()) / self.taken if self.taken else 0.0

    def text(self, column: int) -> str:
        """A bit vector as the paper prints it, the first publication at the right."""
        return self._text(self.bits[:, column])

    def css_text(self) -> str:
        """The bit vector of the partner's covering set, as the paper prints it."""
        return self._text(self.css)

    def _text(self, words: Words) -> str:
        number = sum(int(word) << (_WORD * place) for place, word in enumerate(words.tolist()))
        return f"{number:0{self.taken}b}" if self.taken else ""

    def _share(self, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        return counts / max(self.taken, 1)


def popcounts(bits: Words) -> npt.NDArray[np.int64]:
    """The number of bits set in each column."""
    counts: npt.NDArray[np.int64] = np.bitwise_count(bits).sum(axis=0, dtype=np.int64)
    return counts
