"""Payloads are JSON, typed by the handler's signature, checked on both sides."""

import math
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from holdfast._core.payload import (
    CHECKPOINT_LIMIT,
    PAYLOAD_LIMIT,
    RESULT_LIMIT,
    PayloadType,
    cut_text,
    decode_json,
    encode_checkpoint,
    encode_payload,
    encode_result,
)
from holdfast.errors import ConfigurationError, PayloadInvalid, PayloadTooLarge

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


@dataclass
class Point:
    x: int
    y: int = 0


class Colour(Enum):
    RED = "red"


class Size(msgspec.Struct):
    width: int


class Options(TypedDict, total=False):
    fast: bool


def deep(levels: int) -> list[object]:
    value: list[object] = []
    for _ in range(levels):
        value = [value]
    return value


def analyze(job: object, repo_url: str, limit: int = 100) -> None: ...


def typed(point: Point, sizes: list[Size], options: Options, colour: Colour, when: datetime, key: UUID | None = None) -> None: ...


def free(name: str, **more: int) -> None: ...


def untyped(anything, *, other=None) -> None: ...  # type: ignore[no-untyped-def]


ANALYZE = PayloadType.of(analyze, skip=1)


def test_arguments_bind_as_in_a_call_and_defaults_stay_with_the_code_that_runs() -> None:
    assert ANALYZE.encode(("url",), {}) == b'{"repo_url":"url"}'
    assert ANALYZE.encode(("url",), {"limit": 5}) == ANALYZE.encode(("url", 5), {}) == b'{"repo_url":"url","limit":5}'
    assert ANALYZE.decode(b'{"repo_url":"url"}') == ({"repo_url": "url"}, ())


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((), {}, "missing required field `repo_url`"),
        ((), {"repo_url": "u", "limt": 1}, "limt"),
        (("u", 1, 2), {}, "at most 2 positional"),
        (("u",), {"repo_url": "v"}, "multiple values for 'repo_url'"),
        ((5,), {}, "Expected `str`, got `int` - at `$.repo_url`"),
        (("u", "5"), {}, "Expected `int`, got `str` - at `$.limit`"),
        (("u", True), {}, "Expected `int`, got `bool` - at `$.limit`"),
        (("u", None), {}, "Expected `int`, got `null` - at `$.limit`"),
        (("u", math.nan), {}, "NaN"),
        ((object(),), {}, "object is not JSON data"),
        (("\ud800",), {}, "surrogates"),
    ],
)
def test_a_call_that_does_not_fit_is_refused_by_name(args: tuple[object, ...], kwargs: dict[str, object], words: str) -> None:
    with pytest.raises(PayloadInvalid) as caught:
        ANALYZE.encode(args, kwargs)
    assert str(caught.value).startswith("analyze: ")
    assert words in str(caught.value)


def test_rich_types_arrive_as_themselves() -> None:
    kind = PayloadType.of(typed, skip=0)
    arguments: dict[str, object] = {
        "point": Point(1),
        "sizes": [Size(2)],
        "options": {"fast": True},
        "colour": Colour.RED,
        "when": datetime(2024, 5, 1, tzinfo=UTC),
        "key": UUID(int=3),
    }
    assert kind.decode(kind.encode((), arguments)) == (arguments, ())
    with pytest.raises(PayloadInvalid, match=r"Expected `int`, got `str` - at `\$.point.x`"):
        kind.encode((), arguments | {"point": {"x": "1"}})
    with pytest.raises(PayloadInvalid, match=r"at `\$.options.fast`"):
        kind.encode((), arguments | {"options": {"fast": "yes"}})


def test_unknown_fields_are_named_and_ignored_when_read() -> None:
    assert ANALYZE.decode(b'{"repo_url":"u","depth":1,"x":[]}') == ({"repo_url": "u"}, ("depth", "x"))


def test_free_keywords_take_extra_fields_of_their_type() -> None:
    kind = PayloadType.of(free, skip=0)
    assert kind.decode(kind.encode(("n",), {"a": 1})) == ({"name": "n", "a": 1}, ())
    with pytest.raises(PayloadInvalid, match=r"Expected `int`, got `str` - at `\$.a`"):
        kind.encode(("n",), {"a": "1"})


def test_unannotated_parameters_take_any_json() -> None:
    kind = PayloadType.of(untyped, skip=0)
    assert kind.decode(kind.encode(([1, None],), {"other": {"a": 1.5}})) == ({"anything": [1, None], "other": {"a": 1.5}}, ())


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"repo_url":1}',
        b"{}",
        b'{"repo_url":"\xff"}',
        b'{"\xff":1}',
        b'{"repo_url":' + b"[" * 100_000,
    ],
)
def test_decoding_any_stored_bytes_raises_only_payload_invalid(payload: bytes) -> None:
    with pytest.raises(PayloadInvalid):
        ANALYZE.decode(payload)


def test_nesting_too_deep_for_any_parameter_is_invalid() -> None:
    payload = b'{"anything":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with pytest.raises(PayloadInvalid, match="nested too deeply"):
        PayloadType.of(untyped, skip=0).decode(payload)


@given(st.binary(max_size=200))
def test_random_bytes_raise_only_payload_invalid(payload: bytes) -> None:
    try:
        kwargs, _ = ANALYZE.decode(payload)
    except PayloadInvalid:
        return
    assert isinstance(kwargs["repo_url"], str)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_json_data_is_read_as_it_was_written(value: object) -> None:
    kind = PayloadType.of(untyped, skip=0)
    assert kind.decode(kind.encode((value,), {})) == ({"anything": value}, ())
    assert decode_json(encode_result(value)) == value


@pytest.mark.parametrize("value", [math.nan, [1, {"a": -math.inf}], {"a": (None, math.inf)}, Point(x=math.nan)])  # type: ignore[arg-type]
def test_a_number_json_cannot_hold_is_refused_not_turned_into_null(value: object) -> None:
    with pytest.raises(PayloadInvalid, match="NaN and infinity"):
        encode_result(value)


def test_none_is_not_taken_for_a_lost_number() -> None:
    assert encode_result({"a": None, "b": [1.5, None]}) == b'{"a":null,"b":[1.5,null]}'


def test_a_value_that_contains_itself_is_refused() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(PayloadInvalid, match="reference to itself"):
        encode_result(value)


def test_caps_are_exact() -> None:
    assert len(encode_result("x" * (RESULT_LIMIT - 2))) == RESULT_LIMIT
    with pytest.raises(PayloadTooLarge, match="at most 262,144"):
        encode_result("x" * (RESULT_LIMIT - 1))
    with pytest.raises(PayloadTooLarge, match="at most 65,536"):
        encode_checkpoint("x" * CHECKPOINT_LIMIT)
    with pytest.raises(PayloadTooLarge):
        ANALYZE.encode(("x" * PAYLOAD_LIMIT,), {})
    with pytest.raises(PayloadTooLarge):
        encode_payload("analyze", {"a": "x" * PAYLOAD_LIMIT})


class Line(BaseModel):
    sku: str
    count: int = pydantic.Field(default=1, ge=1, alias="n")
    model_config = pydantic.ConfigDict(populate_by_name=True)


class Basket(BaseModel):
    """A strict model: some values that it accepts as JSON it refuses as Python values."""

    model_config = pydantic.ConfigDict(strict=True)
    key: UUID
    lines: list[Line]
    when: datetime = NOON
    colours: set[Colour] = set()
    gift: "Basket | None" = None

    @pydantic.field_validator("lines")
    @classmethod
    def some(cls, lines: list[Line]) -> list[Line]:
        if not lines:
            raise ValueError("a basket has lines")
        return lines


def with_model(basket: Basket, more: list[Line] | None = None, by_name: dict[str, Line] | None = None) -> None: ...


BASKET = Basket(key=UUID(int=3), lines=[Line(sku="a"), Line(sku="b", count=2)], colours={Colour.RED})
WITH_MODEL = PayloadType.of(with_model, skip=0)


def test_pydantic_models_arrive_as_themselves() -> None:
    arguments: dict[str, object] = {
        "basket": BASKET.model_copy(update={"gift": BASKET}),
        "more": [Line(sku="c")],
        "by_name": {"x": Line(sku="d")},
    }
    assert WITH_MODEL.decode(WITH_MODEL.encode((), arguments)) == (arguments, ())
    plain = {"key": str(UUID(int=3)), "lines": [{"sku": "a"}, {"sku": "b", "n": 2}]}
    arrived, _ = WITH_MODEL.decode(WITH_MODEL.encode((plain,), {}))
    assert arrived == {"basket": Basket(key=UUID(int=3), lines=[Line(sku="a"), Line(sku="b", count=2)])}


def test_pydantic_models_are_results_too() -> None:
    assert decode_json(encode_result({"of": [BASKET]}))["of"][0]["lines"] == [{"sku": "a", "n": 1}, {"sku": "b", "n": 2}]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"basket": {}}, "Field required - at `$.basket.key`; Field required - at `$.basket.lines`"),
        ({"basket": 5}, "Input should be an object - at `$.basket`"),
        ({"basket": {"key": "k", "lines": [{"sku": "s"}]}}, "at `$.basket.key`"),
        ({"basket": {"key": str(UUID(int=3)), "lines": []}}, "a basket has lines - at `$.basket.lines`"),
        ({"more": [{"sku": "s"}, {"sku": 5}]}, "Input should be a valid string - at `$.more[1].sku`"),
        ({"more": [{"sku": "s", "n": 0}]}, "Input should be greater than or equal to 1 - at `$.more[0].n`"),
        ({"by_name": {"x": {"sku": "s", "n": "canary"}}}, "unable to parse string as an integer - at `$.by_name[...].n`"),
        ({"basket": {"lines": [{}] * 20, "key": str(UUID(int=3))}}, "at `$.basket.lines[9].sku`; and 10 more"),
    ],
)
def test_the_error_of_a_model_names_the_path_and_not_the_value(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(PayloadInvalid) as caught:
        WITH_MODEL.encode((), {"basket": BASKET} | arguments)
    assert words in str(caught.value)
    assert "canary" not in str(caught.value)
    assert "pydantic" not in str(caught.value)


class Opaque: ...


def with_opaque(thing: Opaque) -> None: ...


def test_the_error_for_a_type_that_json_cannot_carry_names_a_remedy() -> None:
    kind = PayloadType.of(with_opaque, skip=0)
    with pytest.raises(PayloadInvalid, match="use plain types, a dataclass"):
        kind.encode((5,), {})


def starred(*values: int) -> None: ...


def positional(value: int, /) -> None: ...


def unions(value: "Point | Size") -> None: ...


def missing(value: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (starred, "list parameter"),
        (positional, "remove the '/'"),
        (unions, "cannot be read from JSON"),
        (missing, "outside TYPE_CHECKING"),
    ],
)
def test_signatures_json_cannot_fill_are_refused_at_registration(function: Any, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        PayloadType.of(function, skip=0)


def constrained(n: Annotated[int, msgspec.Meta(ge=1)]) -> None: ...


def test_constraints_of_annotations_are_checked() -> None:
    with pytest.raises(PayloadInvalid, match=r"Expected `int` >= 1 - at `\$.n`"):
        PayloadType.of(constrained, skip=0).encode((0,), {})


@given(st.text(), st.integers(min_value=3, max_value=50))
def test_truncated_text_fits_and_keeps_as_much_as_fits(text: str, limit: int) -> None:
    cut = cut_text(text, limit)
    assert len(cut.encode()) <= limit
    assert cut == text or cut.endswith("…")


def test_text_with_lone_surrogates_can_be_kept() -> None:
    assert cut_text("a\ud800b", 100) == "a?b"


class Level(IntEnum):
    HIGH = 3


class Named(NamedTuple):
    a: int
    b: str


@dataclass
class Everything:
    """Every type that JSON represents by another type."""

    raw: bytes
    exact: Decimal
    key: UUID
    level: Level
    day: date
    time: time
    wait: timedelta
    pair: tuple[int, str]
    some: set[int]
    by_number: dict[int, Named]
    either: int | str | None
    literal: Literal["a", "b"]
    fixed: Size
    nested: "list[Everything]"


EVERYTHING = Everything(
    raw=b"\x00\xff",
    exact=Decimal("0.10000000000000000000001"),
    key=UUID(int=2**127),
    level=Level.HIGH,
    day=date(2024, 2, 29),
    time=time(12, 30),
    wait=timedelta(seconds=1.5),
    pair=(1, "é\n\x00"),
    some={1, 2},
    by_number={-1: Named(1, "x")},
    either=None,
    literal="a",
    fixed=Size(2**62),
    nested=[],
)


def with_everything(value: Everything) -> None: ...


def test_types_that_json_does_not_have_arrive_as_themselves() -> None:
    kind = PayloadType.of(with_everything, skip=0)
    value = replace(EVERYTHING, nested=[EVERYTHING])
    assert kind.decode(kind.encode((value,), {})) == ({"value": value}, ())
    naive = PayloadType.of(with_moment, skip=0)
    assert naive.decode(naive.encode((datetime(2024, 1, 1),), {})) == ({"moment": datetime(2024, 1, 1)}, ())


def with_moment(moment: datetime) -> None: ...


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"a": ["\ud800"]}, "surrogates"),
        ({"\ud800": 1}, "surrogates"),
        ([10**5000], "digits"),
        ({"a": [{"b": math.nan}]}, "NaN and infinity"),
        ({(1, 2): 3}, "tuple is not JSON data"),
        (1j, "complex"),
        ([object()], "object is not JSON data"),
        (len, "builtin_function_or_method is not JSON data"),
        ([deep(100_000)], "nested too deeply"),
    ],
)
def test_a_value_that_json_cannot_hold_is_refused_when_enqueued(value: object, words: str) -> None:
    with pytest.raises(PayloadInvalid, match=words):
        PayloadType.of(untyped, skip=0).encode((value,), {})
    with pytest.raises(PayloadInvalid, match=words):
        encode_payload("elsewhere", {"anything": value})


def test_every_payload_that_can_be_written_can_be_read_at_any_depth() -> None:
    """The process that reads has no more stack than the one that writes, which therefore refuses deeper data."""
    kind = PayloadType.of(untyped, skip=0)
    for depth in (10, 100, 400, 900, 100_000):
        try:
            payload = kind.encode((deep(depth),), {})
        except PayloadInvalid:
            continue
        assert kind.decode(payload)[0] == {"anything": deep(depth)}
        assert depth < 100_000


def test_arguments_whose_names_are_not_strings_are_refused() -> None:
    with pytest.raises(PayloadInvalid, match="takes no argument 'x', 5"):
        ANALYZE.encode((), {"repo_url": "u", 5: 1, "x": 2})  # type: ignore[dict-item]
