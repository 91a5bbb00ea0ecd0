"""Selectors written in Python: ``attr("volume") > 15`` makes the same object as the text ``volume > 15``."""

from __future__ import annotations

from typing import TypeAlias

from penstock.model.errors import LimitError, MisuseError
from penstock.model.limits import INTEGER_MAX, INTEGER_MIN, NAME_CHARS_MAX
from penstock.model.values import Scalar
from penstock.selectors import ast
from penstock.selectors.like import LikePattern
from penstock.selectors.selector import Selector

__all__ = ["AttributeTerm", "TermBuilder", "attr"]

_INFINITY = float("inf")


def attr(name: str) -> AttributeTerm:
    """The value of a message's attribute, to be compared.

    >>> selector = (attr("class") == "STOCK") & (attr("volume") > 15)
    >>> str(selector)
    "class = 'STOCK' AND volume > 15"
    >>> str(attr("symbol").is_in("YHOO", "IBM") | attr("high").between(1, 2) & ~attr("halted").is_null())
    "halted IS NOT NULL AND high >= 1 AND high <= 2 OR symbol IN ('IBM', 'YHOO')"
    >>> str(attr("high") - attr("low") > 0.5)
    'high - low > 0.5'
    """
    if not isinstance(name, str) or not name:
        raise MisuseError(f"an attribute name must be a non-empty str, not {name!r}")
    if len(name) > NAME_CHARS_MAX:
        raise LimitError("length of the attribute's name", len(name), NAME_CHARS_MAX)
    return AttributeTerm(ast.Attribute(_encodable(name)))


class _Operand:
    """Base of attributes and computed terms: comparing them makes a selector."""

    __slots__ = ("term",)
    __hash__ = None  # type: ignore[assignment] # == makes a selector, so a term cannot be looked up

    def __init__(self, term: ast.Term) -> None:
        self.term = term

    def __eq__(self, other: Operand) -> Selector:  # type: ignore[override]
        return self._compare("=", other)

    def __ne__(self, other: Operand) -> Selector:  # type: ignore[override]
        return self._compare("<>", other)

    def __lt__(self, other: Operand) -> Selector:
        return self._compare("<", other)

    def __le__(self, other: Operand) -> Selector:
        return self._compare("<=", other)

    def __gt__(self, other: Operand) -> Selector:
        return self._compare(">", other)

    def __ge__(self, other: Operand) -> Selector:
        return self._compare(">=", other)

    def __add__(self, other: Operand) -> TermBuilder:
        return self._combine("+", other)

    def __radd__(self, other: Operand) -> TermBuilder:
        return TermBuilder(_term(other))._combine("+", self)

    def __sub__(self, other: Operand) -> TermBuilder:
        return self._combine("-", other)

    def __rsub__(self, other: Operand) -> TermBuilder:
        return TermBuilder(_term(other))._combine("-", self)

    def __mul__(self, other: Operand) -> TermBuilder:
        return self._combine("*", other)

    def __rmul__(self, other: Operand) -> TermBuilder:
        return TermBuilder(_term(other))._combine("*", self)

    def __truediv__(self, other: Operand) -> TermBuilder:
        return self._combine("/", other)

    def __rtruediv__(self, other: Operand) -> TermBuilder:
        return TermBuilder(_term(other))._combine("/", self)

    def __neg__(self) -> TermBuilder:
        return TermBuilder(ast.Negative(self.term))

    def __bool__(self) -> bool:
        raise MisuseError("a term cannot be used as a boolean: compare it, and combine selectors with &, | and ~")

    def between(self, low: Operand, high: Operand) -> Selector:
        """From low to high, both included."""
        return (self >= low) & (self <= high)

    def _compare(self, operator: ast.ComparisonOperator, other: Operand) -> Selector:
        return Selector(ast.Comparison(operator, self.term, _term(other)))

    def _combine(self, operator: ast.ArithmeticOperator, other: Operand) -> TermBuilder:
        return TermBuilder(ast.Arithmetic(operator, self.term, _term(other)))


class TermBuilder(_Operand):
    """A number that is computed from the message."""

    __slots__ = ()
    __hash__ = None


# Not a subclass of TermBuilder: for `term > attribute` Python would ask the attribute first, and turn it around.
class AttributeTerm(_Operand):
    """An attribute; besides comparisons it offers tests for lists, patterns and absence."""

    __slots__ = ()
    __hash__ = None

    def is_in(self, *values: Scalar) -> Selector:
        """One of the values (at least one must be given)."""
        if not values:
            raise MisuseError("a list without values matches nothing: name at least one")
        return Selector(ast.InList(self._attribute, tuple(_literal(value) for value in values)))

    def like(self, pattern: str, escape: str | None = None) -> Selector:
        """A text like the pattern: ``%`` is any run of characters, ``_`` any one."""
        if not isinstance(pattern, str) or not isinstance(escape, str | None):
            raise MisuseError(f"a pattern and its escape character are texts, not {pattern!r} and {escape!r}")
        try:
            LikePattern.parse(_encodable(pattern), escape).check_cost()
        except ValueError as error:
            raise MisuseError(f"pattern {pattern!r}: {error}") from None
        return Selector(ast.Like(self._attribute, pattern, escape))

    def is_null(self) -> Selector:
        """Absent or null."""
        return Selector(ast.IsNull(self._attribute))

    def exists(self) -> Selector:
        """Present, whatever the value."""
        return ~self.is_null()

    @property
    def _attribute(self) -> ast.Attribute:
        assert isinstance(self.term, ast.Attribute)
        return self.term


Operand: TypeAlias = Scalar | _Operand


def _term(operand: Operand) -> ast.Term:
    return operand.term if isinstance(operand, _Operand) else ast.Literal(_literal(operand))


def _literal(value: Scalar) -> Scalar:
    kind = value.__class__
    if kind is float and (value != value or abs(value) == _INFINITY):  # type: ignore[arg-type] # noqa: PLR0124
        raise MisuseError(f"a selector compares with finite numbers, not {value!r}")
    if kind is int and not INTEGER_MIN <= value <= INTEGER_MAX:  # type: ignore[operator]
        raise MisuseError(f"integer {value!r} does not fit into 64 bits")
    if kind not in {str, int, float, bool}:
        hint = "use is_null()" if value is None else "use text, an integer, a float or a boolean"
        raise MisuseError(f"a selector cannot compare with {kind.__name__}: {hint}")
    return _encodable(value) if isinstance(value, str) else value


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise MisuseError(f"text {text!r} has a lone surrogate, which no message can have") from None
    return text
