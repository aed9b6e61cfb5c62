"""Payloads of many jobs encoded at once are those that each job has by itself."""

import math
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from holdfast._core.payload import PAYLOAD_LIMIT, PayloadType
from holdfast._core.payload_batch import encode_many
from holdfast.errors import PayloadInvalid


class Place(BaseModel):
    name: str


def analyze(repo_url: str, limit: int | None = 100) -> None: ...
def untyped(anything, *, other=None) -> None: ...  # type: ignore[no-untyped-def]
def free(name: str, **more: int) -> None: ...
def visit(place: Place) -> None: ...


ANALYZE, UNTYPED = PayloadType.of(analyze, skip=0), PayloadType.of(untyped, skip=0)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text() | st.just("\n"),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


def each_by_itself(kind: PayloadType, payloads: list[Any], *, is_compared: bool) -> list[bytes] | None:
    try:
        return [kind.encode((), payload, is_compared=is_compared) for payload in payloads]
    except PayloadInvalid:
        return None


@given(
    st.lists(st.dictionaries(st.sampled_from(["anything", "other", "another"]), VALUES, max_size=3), max_size=5), st.booleans()
)
def test_each_is_encoded_as_by_itself_or_all_of_them_are_left_to_the_caller(payloads: list[Any], is_compared: bool) -> None:
    assert encode_many(UNTYPED, payloads, is_compared=is_compared) == each_by_itself(UNTYPED, payloads, is_compared=is_compared)


@pytest.mark.parametrize(
    "payload", [{}, {"repo_url": 5}, {"repo_url": "u", "limt": 1}, {"repo_url": "\ud800"}, {5: "u"}, [], "u", None]
)
def test_a_wrong_one_is_left_to_the_caller(payload: Any) -> None:
    assert encode_many(ANALYZE, [{"repo_url": "u"}, payload]) is None


def test_null_is_a_value_and_nan_is_not() -> None:
    assert encode_many(ANALYZE, [{"repo_url": "null", "limit": None}]) == [b'{"repo_url":"null","limit":null}']
    assert encode_many(UNTYPED, [{"anything": 1}, {"anything": [math.inf]}]) is None


def test_a_long_one_is_left_to_the_caller() -> None:
    assert encode_many(ANALYZE, [{"repo_url": "u" * PAYLOAD_LIMIT}]) is None


def test_raw_json_with_a_line_end_is_left_to_the_caller() -> None:
    assert encode_many(UNTYPED, [{"anything": msgspec.Raw(b"[1]")}]) == [b'{"anything":[1]}']
    assert encode_many(UNTYPED, [{"anything": msgspec.Raw(b"[\n1]")}]) is None


@pytest.mark.parametrize("kind", [MappingProxyType, type("Row", (dict,), {})])
def test_other_mappings_are_left_to_the_caller(kind: Callable[[Any], Any]) -> None:
    assert encode_many(ANALYZE, [kind({"repo_url": "u"})]) is None


def test_extra_arguments_are_left_to_the_caller() -> None:
    assert encode_many(PayloadType.of(free, skip=0), [{"name": "n"}]) == [b'{"name":"n"}']
    assert encode_many(PayloadType.of(free, skip=0), [{"name": "n", "more": 1}]) is None


def test_models_are_read_by_their_own_code() -> None:
    kind = PayloadType.of(visit, skip=0)
    assert encode_many(kind, [{"place": Place(name="Ulm")}]) == [b'{"place":{"name":"Ulm"}}']
    assert encode_many(kind, [{"place": {"name": 5}}]) is None
