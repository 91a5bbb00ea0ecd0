from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import datasource as ds
from pyspark.sql.types import DataType

from penstock.pipeline.source.fitting import UNFIT, kind_of
from penstock.pipeline.source.positions import TICK_LAST
from penstock.pipeline.source.pushdown import Pushed, pushed
from penstock.selectors import EVERYTHING, Selector
from pipeline.source.support import DATA_TYPES

TYPES: dict[str, DataType] = {
    "s": DATA_TYPES["string"],
    "t": DATA_TYPES["boolean"],
    "b": DATA_TYPES["tinyint"],
    "n": DATA_TYPES["bigint"],
    "x": DATA_TYPES["double"],
    "f": DATA_TYPES["float"],
    "d": DATA_TYPES["decimal(6,2)"],
    'odd "name': DATA_TYPES["string"],
}
ALL = {**TYPES, "pubend": TYPES["s"], "tick": TYPES["n"], "message_id": TYPES["s"]}
texts = st.sampled_from(["", "a", "ab", "a%b", "a_b", "a\\b", "%", "_", "\\", "b", "é", "\U0001f600", "'"])
whole = st.one_of(st.integers(-3, 3), st.sampled_from([127, 128, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)]))
real = st.one_of(st.sampled_from([0.0, -0.0, 1.0, 0.1, 2.0**53, 1e300, math.inf, -math.inf, math.nan]), st.floats())
values = st.one_of(st.none(), texts, whole, real, st.booleans())


def spark_value(name: str, value: Any) -> Any:
    """What the column holds for an attribute."""
    fitted = None if value is None else kind_of(TYPES[name]).fit(value)
    return None if fitted is UNFIT else fitted


def spark_says(each: ds.Filter, row: dict[str, Any]) -> bool | None:
    """Spark's own answer, three-valued, with its rule that NaN is equal to itself and larger than all numbers."""
    if isinstance(each, ds.Not):
        inner = spark_says(each.child, row)
        return None if inner is None else not inner
    value = spark_value(each.attribute[0], row.get(each.attribute[0]))  # type: ignore[attr-defined]
    if isinstance(each, ds.IsNull | ds.IsNotNull):
        return (value is None) == isinstance(each, ds.IsNull)
    wanted = each.value  # type: ignore[attr-defined]
    if isinstance(each, ds.EqualNullSafe):
        return (value is None) == (wanted is None) and (value is None or key(value) == key(wanted))
    if value is None or wanted is None:
        return None
    if isinstance(each, ds.In):
        if any(one is not None and key(one) == key(value) for one in wanted):
            return True
        return None if None in wanted else False
    return bool(ANSWERS[type(each)](value, wanted))


ANSWERS: dict[type[ds.Filter], Callable[[Any, Any], Any]] = {
    ds.EqualTo: lambda value, wanted: key(value) == key(wanted),
    ds.GreaterThan: lambda value, wanted: key(value) > key(wanted),
    ds.GreaterThanOrEqual: lambda value, wanted: key(value) >= key(wanted),
    ds.LessThan: lambda value, wanted: key(value) < key(wanted),
    ds.LessThanOrEqual: lambda value, wanted: key(value) <= key(wanted),
    ds.StringStartsWith: str.startswith,
    ds.StringEndsWith: str.endswith,
    ds.StringContains: str.__contains__,
}


def key(value: Any) -> Any:
    is_nan = isinstance(value, float) and math.isnan(value)
    return value.encode() if isinstance(value, str) else (is_nan, 0 if is_nan else value)


def literal_of(name: str) -> st.SearchStrategy[Any]:
    kind = TYPES[name].typeName()
    by_kind = {"string": texts, "boolean": st.booleans(), "byte": st.integers(-128, 127), "long": whole}
    return by_kind.get(kind, real)


@st.composite
def filters(draw: st.DrawFn) -> ds.Filter:
    name = draw(st.sampled_from(sorted(TYPES)))
    path, literal = (name,), literal_of(name)
    comparisons: list[Any] = [ds.EqualTo, ds.EqualNullSafe]
    if name != "t":
        comparisons += [ds.GreaterThan, ds.GreaterThanOrEqual, ds.LessThan, ds.LessThanOrEqual]
    choices: list[st.SearchStrategy[ds.Filter]] = [
        st.builds(lambda kind, value: kind(path, value), st.sampled_from(comparisons), literal),
        st.just(ds.EqualNullSafe(path, None)),
        st.builds(lambda some: ds.In(path, tuple(some)), st.lists(st.one_of(st.none(), literal), max_size=3)),
        st.sampled_from([ds.IsNull(path), ds.IsNotNull(path)]),
    ]
    if TYPES[name].typeName() == "string":
        kinds = st.sampled_from([ds.StringStartsWith, ds.StringEndsWith, ds.StringContains])
        choices.append(st.builds(lambda kind, value: kind(path, value), kinds, texts))
    found = draw(st.one_of(choices))
    return ds.Not(found) if draw(st.booleans()) else found


rows = st.dictionaries(st.sampled_from(sorted(TYPES)), values)


@settings(max_examples=1_000)
@given(some=st.lists(filters(), min_size=1, max_size=3), row=rows)
def test_no_row_is_lost_that_spark_would_keep(some: list[ds.Filter], row: dict[str, Any]) -> None:
    if all(spark_says(each, row) is True for each in some):
        selector = pushed(some, ALL).selector
        assert Selector.parse(str(selector)).matches(row), (str(selector), some, row)


@settings(max_examples=500)
@given(name=st.sampled_from(["s", "t", "n", "x"]), data=st.data(), value=values)
def test_what_is_pushed_is_worth_it(name: str, data: st.DataObject, value: Any) -> None:
    """Of a value that fits, equality and order are decided by the broker as Spark decides them."""
    wanted = data.draw(literal_of(name))
    if isinstance(wanted, float) and not math.isfinite(wanted):
        return
    kind = data.draw(st.sampled_from([ds.EqualTo] if name == "t" else [ds.EqualTo, ds.GreaterThan, ds.LessThan]))
    each = kind((name,), wanted)
    selector = pushed([each], ALL).selector
    assert selector != EVERYTHING
    if spark_value(name, value) is not None:
        assert selector.matches({name: value}) == spark_says(each, {name: value})


@pytest.mark.parametrize(
    ("some", "selector"),
    [
        ([ds.EqualTo(("s",), "a'b")], "s = 'a''b'"),
        ([ds.StringStartsWith(("s",), "50%_\\")], "s LIKE '50\\%\\_\\\\%' ESCAPE '\\'"),
        ([ds.StringContains(("s",), "x")], "s LIKE '%x%'"),
        ([ds.StringEndsWith(("s",), "x")], "s LIKE '%x'"),
        ([ds.In(("n",), (1, None, 2))], "n IN (1, 2)"),
        ([ds.Not(ds.In(("n",), (1, 2)))], "NOT (n IN (1, 2))"),
        ([ds.IsNotNull(("x",)), ds.GreaterThan(("x",), 1.5)], "x > 1.5"),
        ([ds.IsNotNull(("f",)), ds.GreaterThan(("f",), 1.5)], "f IS NOT NULL"),
        ([ds.EqualTo(('odd "name',), "v")], '"odd ""name" = \'v\''),
        ([ds.Not(ds.IsNull(("d",)))], "d IS NOT NULL"),
    ],
)
def test_filters_become_selectors(some: list[ds.Filter], selector: str) -> None:
    assert pushed(some, ALL).selector == Selector.parse(selector)


@pytest.mark.parametrize(
    "each",
    [
        ds.IsNull(("n",)),
        ds.EqualNullSafe(("n",), None),
        ds.Not(ds.EqualNullSafe(("n",), 1)),
        ds.Not(ds.IsNotNull(("n",))),
        ds.Not(ds.In(("n",), (1, None))),
        ds.In(("n",), ()),
        ds.In(("n",), (None,)),
        ds.In(("n",), (1, "x")),
        ds.EqualTo(("n",), "1"),
        ds.EqualTo(("n",), value=True),
        ds.EqualTo(("n",), 1.0),
        ds.EqualTo(("s",), 1),
        ds.EqualTo(("t",), 1),
        ds.EqualTo(("x",), math.nan),
        ds.LessThan(("x",), math.inf),
        ds.GreaterThan(("f",), 1.0),
        ds.GreaterThan(("d",), 1.0),
        ds.EqualTo(("s", "inner"), "x"),
        ds.EqualTo(("unknown",), "x"),
        ds.EqualTo(("s",), "\ud800"),
        ds.In(("s",), tuple(f"value {number}" for number in range(5_000))),
    ],
)
def test_what_cannot_be_said_stays_with_spark(each: ds.Filter) -> None:
    assert pushed([each], ALL) == Pushed()


def test_the_users_selector_is_kept_beside_the_filters() -> None:
    wanted = Selector.parse("n > 5")
    assert pushed([], ALL, wanted).selector == wanted
    both = pushed([ds.EqualTo(("s",), "a")], ALL, wanted).selector
    assert both == Selector.parse("n > 5 AND s = 'a'")
    assert pushed([ds.IsNull(("s",))], ALL, wanted).selector == wanted


def test_attributes_are_left_alone_if_told() -> None:
    found = pushed([ds.EqualTo(("s",), "a"), ds.GreaterThan(("tick",), 5)], ALL, by_attribute=False)
    assert found == Pushed(first=6)


@pytest.mark.parametrize(
    ("each", "bounds"),
    [
        (ds.EqualTo(("tick",), 7), (7, 7)),
        (ds.EqualNullSafe(("tick",), 7), (7, 7)),
        (ds.GreaterThan(("tick",), 7), (8, TICK_LAST)),
        (ds.GreaterThanOrEqual(("tick",), 7), (7, TICK_LAST)),
        (ds.LessThan(("tick",), 7), (0, 6)),
        (ds.LessThanOrEqual(("tick",), 7), (0, 7)),
        (ds.In(("tick",), (9, 3, 5)), (3, 9)),
        (ds.In(("tick",), (9, None)), (0, TICK_LAST)),
        (ds.Not(ds.EqualTo(("tick",), 7)), (0, TICK_LAST)),
        (ds.IsNotNull(("tick",)), (0, TICK_LAST)),
        (ds.EqualTo(("tick",), "7"), (0, TICK_LAST)),
    ],
)
def test_filters_on_ticks_become_a_range(each: ds.Filter, bounds: tuple[int, int]) -> None:
    found = pushed([each], ALL)
    assert (found.first, found.last, found.selector) == (*bounds, EVERYTHING)


def test_several_bounds_are_all_kept() -> None:
    found = pushed([ds.GreaterThan(("tick",), 3), ds.LessThan(("tick",), 9), ds.GreaterThan(("tick",), 1)], ALL)
    assert (found.first, found.last) == (4, 8)


@pytest.mark.parametrize(
    ("each", "wanted"),
    [
        (ds.EqualTo(("pubend",), "a.x"), {"a.x"}),
        (ds.Not(ds.EqualTo(("pubend",), "a.x")), {"a.y", "b.x"}),
        (ds.In(("pubend",), ("a.x", "b.x", None)), {"a.x", "a.y", "b.x"}),
        (ds.In(("pubend",), ("a.x", "b.x")), {"a.x", "b.x"}),
        (ds.Not(ds.In(("pubend",), ("a.x",))), {"a.y", "b.x"}),
        (ds.StringStartsWith(("pubend",), "a."), {"a.x", "a.y"}),
        (ds.StringEndsWith(("pubend",), ".x"), {"a.x", "b.x"}),
        (ds.StringContains(("pubend",), "y"), {"a.y"}),
        (ds.IsNull(("pubend",)), set()),
        (ds.IsNotNull(("pubend",)), {"a.x", "a.y", "b.x"}),
        (ds.GreaterThan(("pubend",), "b"), {"a.x", "a.y", "b.x"}),
    ],
)
def test_filters_on_pubends_choose_them(each: ds.Filter, wanted: set[str]) -> None:
    found = pushed([each], ALL)
    assert {name for name in ("a.x", "a.y", "b.x") if found.wants(name)} == wanted
    assert found.selector == EVERYTHING


def test_an_attribute_with_the_name_of_a_standard_column_is_not_meant() -> None:
    assert pushed([ds.EqualTo(("tick",), 3), ds.EqualTo(("pubend",), "x")], TYPES) == Pushed()
    assert pushed([ds.EqualTo(("message_id",), "x")], {"message_id": TYPES["s"]}).selector == EVERYTHING
