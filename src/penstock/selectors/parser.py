"""Parses selectors written in SQL (JMS 2.0 section 3.8.1, a subset of SQL-92 conditions).

One grammar serves values and conditions, since both may stand in parentheses and only what follows tells them apart;
each operator then checks what it was given. Operators are parsed by how tightly they bind, in one loop instead of a
function per level: it is quicker, and a hundred nested parentheses stay far from Python's limit on recursion.

Deviations from JMS: IN also takes numbers and booleans; the empty selector is TRUE; text is ordered.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from penstock.model.limits import INTEGER_MIN, SELECTOR_DEPTH_MAX, SELECTOR_NODES_MAX, SELECTOR_SEARCHES_MAX
from penstock.model.values import Scalar
from penstock.selectors.ast import (
    And,
    Arithmetic,
    ArithmeticOperator,
    Attribute,
    Comparison,
    ComparisonOperator,
    Condition,
    Constant,
    InList,
    IsNull,
    Like,
    Literal,
    Negative,
    Not,
    Or,
    Term,
)
from penstock.selectors.errors import SelectorError, SelectorTooLargeError
from penstock.selectors.lexer import END, NUMBER, STRING, TOO_BIG, Token, describe, out_of_range, tokenize
from penstock.selectors.like import LikePattern

__all__ = ["parse_sql"]

_Node: TypeAlias = Term | Condition
_TERMS: Final = (Attribute, Literal, Arithmetic, Negative)

_OR, _AND, _NOT, _PREDICATE, _SUM, _PRODUCT, _SIGN = range(1, 8)
_COMPARISONS: Final[dict[str, ComparisonOperator]] = {
    "=": "=",
    "<>": "<>",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
}
_ARITHMETIC: Final[dict[str, ArithmeticOperator]] = {"+": "+", "-": "-", "*": "*", "/": "/"}
_BINDING: Final[dict[str, int]] = {
    "OR": _OR,
    "AND": _AND,
    **dict.fromkeys((*_COMPARISONS, "NOT", "BETWEEN", "IN", "LIKE", "IS"), _PREDICATE),
    **dict.fromkeys("+-", _SUM),
    **dict.fromkeys("*/", _PRODUCT),
}


def parse_sql(text: str) -> Condition:
    """The condition the text stands for; a ``SelectorError`` points at the first character that is wrong.

    >>> parse_sql("volume > 15")
    Comparison(operator='>', left=Attribute(name='volume'), right=Literal(value=15))
    """
    tokens = tokenize(text)
    if len(tokens) == 1:
        return Constant(value=True)
    return _Parser(text, tokens).selector()


class _Parser:
    """Walks over the tokens once; knows the height of the node built last and the number of nodes so far."""

    __slots__ = ("_at", "_height", "_nesting", "_nodes", "_searches", "_text", "_tokens")

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self._text, self._tokens = text, tokens
        self._at = self._height = self._nesting = self._nodes = 0
        self._searches: dict[tuple[str, LikePattern], None] = {}

    def selector(self) -> Condition:
        condition = self._as_condition(self._expression(_OR), 0)
        if self._tokens[self._at][0] != END:
            raise self._unexpected("an operator or the end")
        return condition

    def _expression(self, floor: int) -> _Node:
        """An operand, and all operators after it that bind at least as tightly as ``floor``."""
        start, nodes_before = self._at, self._nodes
        left = self._prefix(floor)
        while (binding := _BINDING.get(self._tokens[self._at][0], 0)) >= floor:
            if binding == _PREDICATE:
                left = self._predicate(left, start, nodes_before)
            elif binding < _PREDICATE:
                left = self._chain(left, start, binding)
            else:
                left = self._arithmetic(left, binding)
        return left

    def _term(self, floor: int) -> Term:
        start = self._at
        node = self._expression(floor)
        return node if isinstance(node, _TERMS) else self._not_a_term(start)

    def _as_condition(self, node: _Node, start: int) -> Condition:
        if not isinstance(node, _TERMS):
            return node
        if isinstance(node, Attribute):
            self._built(height=1, nodes=2, at=start)
            return Comparison("=", node, Literal(value=True))
        if isinstance(node, Literal) and isinstance(node.value, bool):
            return Constant(node.value)
        raise self._error("expected a condition, found a value", start)

    def _prefix(self, floor: int) -> _Node:
        at = self._at
        kind, leaf, _ = self._tokens[at]
        if leaf is not None:
            self._at = at + 1
            self._nodes += 1
            self._height = 0
            return leaf
        if kind == "(":
            inside = self._parenthesis
        elif kind in ("+", "-"):
            inside = self._sign
        elif kind == "NOT" and floor <= _NOT:
            inside = self._not
        else:
            raise self._no_operand()
        self._nesting += 1
        if self._nesting > SELECTOR_DEPTH_MAX:
            raise self._too_deep(at)
        self._at = at + 1
        node = inside()
        self._nesting -= 1
        return node

    def _parenthesis(self) -> _Node:
        node = self._expression(_OR)
        if self._tokens[self._at][0] != ")":
            raise self._unexpected("an operator or ')'")
        self._at += 1
        return node

    def _not(self) -> _Node:
        at = self._at
        operand = self._as_condition(self._expression(_NOT), at)
        self._built(height=self._height + 1, nodes=1, at=at - 1)
        return Not(operand)

    def _sign(self) -> _Node:
        at = self._at
        sign = self._tokens[at - 1][0]
        number = self._signed_number(sign)
        if number is not None:
            self._nodes += 1
            self._height = 0
            return number
        operand = self._prefix(_SIGN)
        if not isinstance(operand, _TERMS):
            return self._not_a_term(at)
        if sign == "-":
            self._built(height=self._height + 1, nodes=1, at=at - 1)
            return Negative(operand)
        if isinstance(operand, Negative | Arithmetic) or _is_number(operand):
            return operand
        # A plus sign changes no number, but it must make anything else unknown; a double negation does just that.
        self._built(height=self._height + 2, nodes=2, at=at - 1)
        return Negative(Negative(operand))

    def _signed_number(self, sign: str) -> Literal | None:
        """The number that follows the sign as one literal, or None if something else follows."""
        kind, leaf, _ = self._tokens[self._at]
        if kind == TOO_BIG and sign == "-":
            self._at += 1
            return Literal(INTEGER_MIN)
        if kind != NUMBER or not isinstance(leaf, Literal) or isinstance(leaf.value, str):
            return None
        self._at += 1
        return Literal(-leaf.value) if sign == "-" else leaf

    def _chain(self, left: _Node, start: int, binding: int) -> Condition:
        """All operands of one AND or OR, side by side."""
        operator_at = self._at
        kind = self._tokens[operator_at][0]
        operands = [self._as_condition(left, start)]
        height = self._height
        while self._tokens[self._at][0] == kind:
            self._at = operand_at = self._at + 1
            operands.append(self._as_condition(self._expression(binding + 1), operand_at))
            height = max(height, self._height)
        self._built(height=height + 1, nodes=1, at=operator_at)
        return And(tuple(operands)) if kind == "AND" else Or(tuple(operands))

    def _arithmetic(self, left: _Node, binding: int) -> Term:
        at, height = self._at, self._height
        if not isinstance(left, _TERMS):
            raise self._unexpected("AND or OR")
        self._at = at + 1
        right = self._term(binding + 1)
        self._built(height=max(height, self._height) + 1, nodes=1, at=at)
        return Arithmetic(_ARITHMETIC[self._tokens[at][0]], left, right)

    def _predicate(self, left: _Node, start: int, nodes_before: int) -> Condition:
        """A comparison, or one of the tests that are spelled out in words."""
        at, height = self._at, self._height
        if not isinstance(left, _TERMS):
            raise self._unexpected("AND or OR")
        kind = self._tokens[at][0]
        self._at = at + 1
        operator = _COMPARISONS.get(kind)
        if operator is not None:
            right = self._term(_SUM)
            self._built(height=max(height, self._height) + 1, nodes=1, at=at)
            return Comparison(operator, left, right)
        if kind == "IS":
            return self._is_null(self._attribute(left, start, "IS"), at)
        negated = kind == "NOT"
        if negated:
            kind = self._next("BETWEEN", "IN", "LIKE")
        if kind == "BETWEEN":
            condition = self._between(left, at, self._nodes - nodes_before)
        elif kind == "IN":
            condition = self._in_list(self._attribute(left, start, "IN"), at)
        else:
            condition = self._like(self._attribute(left, start, "LIKE"), at)
        return self._negated(condition, at) if negated else condition

    def _is_null(self, attribute: Attribute, at: int) -> Condition:
        negated = self._next("NULL", "NOT") == "NOT"
        if negated:
            self._next("NULL")
        self._built(height=1, nodes=1, at=at)
        return self._negated(IsNull(attribute), at) if negated else IsNull(attribute)

    def _between(self, tested: Term, at: int, tested_nodes: int) -> Condition:
        height = self._height
        low = self._term(_SUM)
        height = max(height, self._height)
        self._next("AND")
        high = self._term(_SUM)
        # The tested term is in the tree twice, so its nodes count twice.
        self._built(height=max(height, self._height) + 2, nodes=tested_nodes + 3, at=at)
        return And((Comparison(">=", tested, low), Comparison("<=", tested, high)))

    def _in_list(self, attribute: Attribute, at: int) -> Condition:
        self._next("(")
        values = [self._literal()]
        while self._next(",", ")") == ",":
            values.append(self._literal())
        self._built(height=1, nodes=1 + len(values), at=at)
        return InList(attribute, tuple(values))

    def _like(self, attribute: Attribute, at: int) -> Condition:
        pattern_at = self._at
        pattern, escape = self._string("a pattern in quotes"), None
        if self._tokens[self._at][0] == "ESCAPE":
            self._at += 1
            escape = self._string("one character in quotes")
            if len(escape) != 1:
                self._at -= 1
                raise self._unexpected("one character in quotes")
        try:
            like = LikePattern.parse(pattern, escape)
            like.check_cost()
        except ValueError as error:
            raise self._error(str(error), pattern_at) from None
        if like.is_searched_for:
            self._searches[attribute.name, like] = None
            if len(self._searches) > SELECTOR_SEARCHES_MAX:
                problem = f"selector searches for more than {SELECTOR_SEARCHES_MAX} LIKE patterns"
                raise SelectorTooLargeError(problem, self._text, self._tokens[pattern_at][2])
        self._built(height=1, nodes=2, at=at)
        return Like(attribute, pattern, escape)

    def _negated(self, condition: Condition, at: int) -> Not:
        self._built(height=self._height + 1, nodes=1, at=at)
        return Not(condition)

    def _literal(self) -> Scalar:
        kind, leaf, _ = self._tokens[self._at]
        if kind in ("+", "-"):
            self._at += 1
            leaf = self._signed_number(kind)
        elif isinstance(leaf, Literal):
            self._at += 1
        if isinstance(leaf, Literal):
            return leaf.value
        if self._tokens[self._at][0] == TOO_BIG:
            raise self._no_operand()
        raise self._unexpected("a number" if kind in ("+", "-") else "a literal")

    def _string(self, expected: str) -> str:
        kind, leaf, _ = self._tokens[self._at]
        if kind != STRING or not isinstance(leaf, Literal):
            raise self._unexpected(expected)
        self._at += 1
        return str(leaf.value)

    def _next(self, *kinds: str) -> str:
        """Step over a token that must be of one of the kinds."""
        kind = self._tokens[self._at][0]
        if kind not in kinds:
            names = [name if name.isalpha() else f"'{name}'" for name in kinds]
            raise self._unexpected(" or ".join(filter(None, (", ".join(names[:-1]), names[-1]))))
        self._at += 1
        return kind

    def _attribute(self, node: Term, start: int, keyword: str) -> Attribute:
        if not isinstance(node, Attribute):
            raise self._error(f"expected an attribute to the left of {keyword}, found a value", start)
        return node

    def _built(self, *, height: int, nodes: int, at: int) -> None:
        """Account for a new node; refuse it if the tree grows too large."""
        self._height = height
        self._nodes += nodes
        if height > SELECTOR_DEPTH_MAX:
            raise self._too_deep(at)
        if self._nodes > SELECTOR_NODES_MAX:
            problem = f"selector has over {SELECTOR_NODES_MAX:,} literals, attributes and operators"
            raise SelectorTooLargeError(problem, self._text, self._tokens[at][2])

    def _too_deep(self, at: int) -> SelectorError:
        problem = f"selector is nested deeper than {SELECTOR_DEPTH_MAX:,}"
        return SelectorTooLargeError(problem, self._text, self._tokens[at][2])

    def _not_a_term(self, start: int) -> Term:
        raise self._error("expected a value or attribute, found a condition", start)

    def _no_operand(self) -> SelectorError:
        kind, _, position = self._tokens[self._at]
        if kind == TOO_BIG:
            return out_of_range(describe(self._text, position).strip("'"), self._text, position)
        if kind == "NULL":
            return self._error("expected a value or attribute, found NULL: use IS NULL", self._at)
        return self._unexpected("a value or attribute")

    def _unexpected(self, expected: str) -> SelectorError:
        return self._error(f"expected {expected}, found {describe(self._text, self._tokens[self._at][2])}", self._at)

    def _error(self, problem: str, at: int) -> SelectorError:
        return SelectorError(problem, self._text, self._tokens[at][2])


def _is_number(term: Term) -> bool:
    return isinstance(term, Literal) and not isinstance(term.value, str | bool)
