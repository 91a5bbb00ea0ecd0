"""The oracle of ``delivery-kill9``: knows what each subscriber should get, without the brokers, and judges what it got.

Each publisher numbers its messages. A subscriber should get the numbers of a publisher's acknowledged messages that
match its selector, in order. A message that was never acknowledged may arrive or not, but only once, and in its place.
Both sequences are hashed into chains: they are equal if and only if the ends of the chains are. Only when they differ
are the numbers compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import zip_longest
from typing import Final

from penstock.model.values import AttributeValue
from penstock.selectors.evaluate import compile_condition
from penstock.selectors.text import parse

__all__ = ["DeliveryVerdict", "HashChain", "Ledger", "Reading", "judge"]

_DIGEST_BYTES: Final = 16


class HashChain:
    """The digest of a sequence of numbers: each is hashed with the digest of all before it.

    >>> one, other = HashChain(), HashChain()
    >>> for number in (1, 2, 3):
    ...     one.add(number)
    >>> for number in (1, 3, 2):
    ...     other.add(number)
    >>> one.digest == other.digest
    False
    """

    __slots__ = ("digest",)

    def __init__(self, numbers: Sequence[int] = ()) -> None:
        self.digest = bytes(_DIGEST_BYTES)
        for number in numbers:
            self.add(number)

    def add(self, number: int) -> None:
        """Hash the next number into the chain."""
        self.digest = blake2b(self.digest + number.to_bytes(8), digest_size=_DIGEST_BYTES).digest()


@dataclass(slots=True)
class Reading:
    """The messages that one subscriber got from one publisher."""

    numbers: list[int] = field(default_factory=list)
    chain: HashChain = field(default_factory=HashChain)

    def add(self, number: int) -> None:
        """Record a message that has arrived."""
        self.numbers.append(number)
        self.chain.add(number)


@dataclass(slots=True, frozen=True)
class DeliveryVerdict:
    """How the messages that a subscriber got from a publisher differ from the right ones."""

    lost: int
    duplicated: int
    reordered: int
    """Messages that came after one with a higher number, not counting duplicates."""
    wrongly_filtered: int
    first_difference: int | None
    """The first place where the sequences differ; None if the ends of their chains are equal."""


def judge(fitting: Sequence[int], acked: int, reading: Reading) -> DeliveryVerdict:
    """Compare what was read with the numbers that match the selector; those up to ``acked`` are acknowledged.

    >>> reading = Reading()
    >>> for number in (1, 4, 4, 2):
    ...     reading.add(number)
    >>> judge([1, 2, 3, 4, 5], 3, reading)
    DeliveryVerdict(lost=1, duplicated=1, reordered=1, wrongly_filtered=0, first_difference=1)
    """
    got = set(reading.numbers)
    expected = [number for number in fitting if number <= acked or number in got]
    chain = HashChain(expected)
    if chain.digest == reading.chain.digest:
        return DeliveryVerdict(0, 0, 0, 0, None)
    places = enumerate(zip_longest(expected, reading.numbers))
    fits = set(fitting)
    return DeliveryVerdict(
        lost=sum(number not in got for number in expected),
        duplicated=len(reading.numbers) - len(got),
        reordered=_reordered(reading.numbers),
        wrongly_filtered=sum(number not in fits for number in reading.numbers),
        first_difference=next(place for place, (right, found) in places if right != found),
    )


def _reordered(numbers: Sequence[int]) -> int:
    highest, count = 0, 0
    for number in dict.fromkeys(numbers):
        count += number < highest
        highest = max(highest, number)
    return count


class Ledger:
    """All published messages, and the selectors that each matches, found by evaluating every selector by itself."""

    def __init__(self, publishers: int, selectors: Sequence[str]) -> None:
        self._conditions = [compile_condition(parse(text)) for text in selectors]
        self._messages: list[list[tuple[float, dict[str, AttributeValue]]]] = [[] for _ in range(publishers)]
        self._fitting: list[list[list[int]]] = [[[] for _ in range(publishers)] for _ in selectors]

    @property
    def published(self) -> int:
        """The number of published messages."""
        return sum(map(len, self._messages))

    def issue(
        self, publisher: int, attributes: Mapping[str, AttributeValue], *, now_s: float
    ) -> dict[str, AttributeValue]:
        """Record and return the publisher's next message, with its number, counted from 1."""
        messages = self._messages[publisher]
        number = len(messages) + 1
        message = {**attributes, "publisher": publisher, "number": number}
        messages.append((now_s, message))
        for condition, fitting in zip(self._conditions, self._fitting, strict=True):
            if condition(message) is True:
                fitting[publisher].append(number)
        return message

    def find(self, attributes: Mapping[str, AttributeValue]) -> tuple[int, int, float] | None:
        """Publisher, number and time of a message; None if no such message was published."""
        publisher, number = attributes.get("publisher"), attributes.get("number")
        if type(publisher) is not int or type(number) is not int or not 0 <= publisher < len(self._messages):
            return None
        messages = self._messages[publisher]
        if not 1 <= number <= len(messages) or messages[number - 1][1] != attributes:
            return None
        return publisher, number, messages[number - 1][0]

    def fitting(self, subscriber: int, publisher: int) -> Sequence[int]:
        """The numbers of a publisher's messages that match a subscriber's selector, in order."""
        return self._fitting[subscriber][publisher]
