"""Results of other jobs become parameters: their places, their sizes, and what takes the place of a missing one."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from holdfast._core import inputs
from holdfast._core.inputs import Filled, fill, unfit
from holdfast._core.job import Failed
from holdfast._core.member import Input
from holdfast._core.payload import PayloadType
from holdfast.errors import PayloadInvalid

ONE, TWO, THREE = UUID(int=1), UUID(int=2), UUID(int=3)


def handler(first: int, second: int | Failed, third: str = "") -> None: ...


TYPE = PayloadType.of(handler, skip=0)


def test_results_are_added_to_the_payload_as_they_are_stored() -> None:
    wanted = [Input("first", ONE), Input("second", TWO, ("a", "b"))]
    filled = fill(TYPE, b'{"third":"x"}', wanted, {ONE: b"1.50", TWO: b'{"a":{"b":[2,  3]}}'})
    assert filled == Filled(b'{"third":"x","first":1.50,"second":[2,  3]}')


def test_a_failure_takes_the_place_of_a_result_where_the_parameter_accepts_it() -> None:
    failed = Failed("EXPIRED")
    assert fill(TYPE, b"{}", [Input("second", TWO)], {TWO: failed}) == Filled(b"{}", (("second", failed),))
    with pytest.raises(PayloadInvalid, match=f"first: the result of the job {ONE} is missing: EXPIRED"):
        fill(TYPE, b"{}", [Input("first", ONE)], {ONE: failed})


def test_an_unknown_result_is_a_failure() -> None:
    assert fill(TYPE, b"{}", [Input("second", TWO)], {}).failed == (("second", Failed("RESULT_NOT_AVAILABLE")),)


@pytest.mark.parametrize("result", [b'{"a":1}', b'{"b":{}}', b"[1]", b"null"])
def test_a_path_that_a_result_does_not_have_is_named(result: bytes) -> None:
    with pytest.raises(PayloadInvalid, match=f"first: the result of the job {ONE} has no 'a.b'"):
        fill(TYPE, b"{}", [Input("first", ONE, ("a", "b"))], {ONE: result})


def test_too_many_bytes_are_refused_by_the_name_of_each_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "INPUTS_LIMIT", 5)
    wanted = [Input("first", ONE), Input("second", TWO)]
    assert fill(TYPE, b"{}", wanted, {ONE: b"12", TWO: b"345"}).payload == b'{"first":12,"second":345}'
    with pytest.raises(PayloadInvalid, match="results of 6 bytes, at most 5: first 2, second 4"):
        fill(TYPE, b"{}", wanted, {ONE: b"12", TWO: b"3456"})


def lists(
    numbers: list[int], some: Sequence[int | Failed], pair: tuple[int, str], many: tuple[int, ...], loose: set[int]
) -> None: ...


class Picky:
    """A type whose reading raises what it likes."""

    @staticmethod
    def model_validate_json(data: bytes) -> None:
        raise LookupError(f"not in the catalogue: {data.decode()}")


def model(picky: Picky, anything: Any = None) -> None: ...


LISTS, MODEL = PayloadType.of(lists, skip=0), PayloadType.of(model, skip=0)


@pytest.mark.parametrize(
    ("accepts", "wanted", "outputs", "expected"),
    [
        (TYPE, [Input("first", ONE)], [b'"x"'], (ONE, "first", "Expected `int`, got `str`")),
        (TYPE, [Input("second", TWO), Input("first", ONE)], [b"[]", b"1"], (TWO, "second", "Expected `int`, got `array`")),
        (TYPE, [Input("first", ONE, ("a",))], [b'{"a":"x"}'], (ONE, "first", "Expected `int`, got `str`")),
        (LISTS, [Input("numbers", ONE)], [b'[1,[],"x"]'], (ONE, "numbers[1]", "Expected `int`, got `array`")),
        (LISTS, [Input("numbers", ONE)], [b"5"], (ONE, "numbers", "Expected `array`, got `int`")),
        (
            LISTS,
            [Input("numbers", ONE, is_item=True), Input("numbers", TWO, is_item=True)],
            [b"1", b"null"],
            (TWO, "numbers[1]", "Expected `int`, got `null`"),
        ),
        (
            LISTS,
            [Input("some", THREE, is_item=True), Input("some", ONE, is_item=True), Input("some", TWO, is_item=True)],
            [Failed("EXPIRED"), b"1", b'"x"'],
            (TWO, "some[2]", "Expected `int`, got `str`"),
        ),
        (
            LISTS,
            [Input("pair", ONE, is_item=True), Input("pair", TWO, is_item=True)],
            [b"1", b"2"],
            (TWO, "pair[1]", "Expected `str`, got `int`"),
        ),
        (LISTS, [Input("many", ONE)], [b'[1,2,"x"]'], (ONE, "many[2]", "Expected `int`, got `str`")),
        (LISTS, [Input("loose", ONE)], [b'[1,"x"]'], (ONE, "loose", "Expected `int`, got `str` - at `$[1]`")),
        (MODEL, [Input("picky", ONE)], [b"5"], (ONE, "picky", "not in the catalogue: 5")),
    ],
)
def test_a_result_that_does_not_fit_is_found_among_all(
    accepts: PayloadType, wanted: list[Input], outputs: list[bytes | Failed], expected: tuple[UUID, str, str]
) -> None:
    filled = fill(accepts, b"{}", wanted, {each.parent: output for each, output in zip(wanted, outputs, strict=True)})
    found = unfit(accepts, filled, wanted)
    assert found is not None
    parent, place, problem = expected
    assert (found.parent, found.place, found.problem) == (parent, place, f"does not fit: {problem}")
    assert str(found.named("build")) == f"{accepts.name}: {place}: the result of the node 'build' does not fit: {problem}"


@pytest.mark.parametrize("result", [b"7", b"[7]"])
def test_results_that_fit_are_not_blamed_for_another_field(result: bytes) -> None:
    wanted = [Input("anything", ONE)]
    assert unfit(MODEL, fill(MODEL, b'{"picky":5}', wanted, {ONE: result}), wanted) is None


def test_an_item_of_a_list_without_positions_is_not_blamed() -> None:
    wanted = [Input("loose", ONE, is_item=True), Input("loose", TWO, is_item=True)]
    assert unfit(LISTS, fill(LISTS, b"{}", wanted, {ONE: b"1", TWO: b'"x"'}), wanted) is None
