"""Results of other jobs become parameters: their places, their sizes, and what takes the place of a missing one."""

from uuid import UUID

import pytest

from holdfast._core import inputs
from holdfast._core.inputs import Filled, fill
from holdfast._core.job import Failed
from holdfast._core.member import Input
from holdfast._core.payload import PayloadType
from holdfast.errors import PayloadInvalid

ONE, TWO = UUID(int=1), UUID(int=2)


def handler(first: int, second: int | Failed, third: str = "") -> None: ...


TYPE = PayloadType.of(handler, skip=0)


def test_results_are_added_to_the_payload_as_they_are_stored() -> None:
    wanted = [Input("first", ONE), Input("second", TWO, ("a", "b"))]
    filled = fill(TYPE, b'{"third":"x"}', wanted, {ONE: b"1.50", TWO: b'{"a":{"b":[2,  3]}}'})
    assert filled == Filled(b'{"third":"x","first":1.50,"second":[2,  3]}')


def test_a_failure_takes_the_place_of_a_result_where_the_parameter_accepts_it() -> None:
    failed = Failed("EXPIRED")
    assert fill(TYPE, b"{}", [Input("second", TWO)], {TWO: failed}) == Filled(b"{}", (("second", failed),))
    with pytest.raises(PayloadInvalid, match=r"no result: EXPIRED - at `\$.first`"):
        fill(TYPE, b"{}", [Input("first", ONE)], {ONE: failed})


def test_an_unknown_result_is_a_failure() -> None:
    assert fill(TYPE, b"{}", [Input("second", TWO)], {}).failed == (("second", Failed("RESULT_NOT_AVAILABLE")),)


@pytest.mark.parametrize("result", [b'{"a":1}', b'{"b":{}}', b"[1]", b"null"])
def test_a_path_that_a_result_does_not_have_is_named(result: bytes) -> None:
    with pytest.raises(PayloadInvalid, match=r"no 'a.b' - at `\$.first`"):
        fill(TYPE, b"{}", [Input("first", ONE, ("a", "b"))], {ONE: result})


def test_too_many_bytes_are_refused_by_the_name_of_each_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "INPUTS_LIMIT", 5)
    wanted = [Input("first", ONE), Input("second", TWO)]
    assert fill(TYPE, b"{}", wanted, {ONE: b"12", TWO: b"345"}).payload == b'{"first":12,"second":345}'
    with pytest.raises(PayloadInvalid, match="results of 6 bytes, at most 5: first 2, second 4"):
        fill(TYPE, b"{}", wanted, {ONE: b"12", TWO: b"3456"})
