"""Conversion of values to JSON and back, typed by the handler's signature.

A payload is checked when it is enqueued, where the caller can still correct it, and again before the handler runs, because the code may
have changed in between. Only JSON is read or written: no pickle, no import by a stored name.
"""

import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Raw, Struct, structs

from holdfast._core.job import Failed, Json
from holdfast._core.steps import SIGNAL_LIMIT, STEP_LIMIT
from holdfast.errors import ConfigurationError, PayloadInvalid, PayloadTooLarge, ResultInvalid

PAYLOAD_LIMIT = 256 * 1024
RESULT_LIMIT = 256 * 1024
CHECKPOINT_LIMIT = 64 * 1024
ERROR_TEXT_LIMIT = 16 * 1024
MESSAGE_LIMIT = 1024
KEY_LIMIT = 200  # characters

SHOWN_PROBLEMS = 10

_PATH = re.compile(r" - at `(\$[^`]*)`$")
_ENDS_IN_HALF_A_PAIR = re.compile(rb"""\\u[dD][89abAB][0-9a-fA-F]{2}"[^"]{0,4}\Z""")
"""JSON that ends right behind the first half of a surrogate pair: msgspec looks for the other half, and takes it for truncated."""
_HALF_OF_A_PAIR = "a string ends in half of a surrogate pair, such as \\ud800, which is no character"
_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


class PayloadType(Struct, frozen=True):
    """The parameters that a handler accepts, read from its signature without the job parameter.

    ``fallible``: those that also accept a ``Failed``, which never stands in a payload: it takes the place of a missing result.
    ``fallible_items``: the lists whose items do.

    >>> def resize(path: str, width: int = 800) -> None: ...
    >>> PayloadType.of(resize, skip=0).encode((), {"path": "a.png"})
    b'{"path":"a.png"}'
    """

    name: str
    positional: tuple[str, ...]
    fields: frozenset[str]
    known: "msgspec.json.Decoder[Struct]"
    exact: "msgspec.json.Decoder[Struct]"
    has_defaults: bool
    extra: "msgspec.json.Decoder[object] | None"
    fallible: frozenset[str] = frozenset()
    fallible_items: frozenset[str] = frozenset()

    @classmethod
    def of(cls, function: Callable[..., Any], *, skip: int) -> "PayloadType":
        """Read a signature without its first ``skip`` parameters; ``ConfigurationError`` names all that JSON cannot carry."""
        name = getattr(function, "__name__", repr(function))
        hints = annotations_of(function)
        every = list(inspect.signature(function).parameters.values())[skip:]
        problems = [f"task {name}: {problem}" for problem in map(_problem_of, every) if problem]
        if problems:
            raise ConfigurationError(problems)
        named = [each for each in every if each.kind in _NAMED]
        free = [each.name for each in every if each.kind is Parameter.VAR_KEYWORD]
        try:
            fields = [_field(each, _without_failed(hints.get(each.name, Any))) for each in named]
            known = _decoder(msgspec.defstruct(name, fields))
            exact = _decoder(msgspec.defstruct(name, fields, forbid_unknown_fields=True))
            extra = _decoder(hints.get(free[0], Any)) if free else None
        except (TypeError, ValueError) as error:
            raise ConfigurationError([f"task {name}: its parameters cannot be read from JSON: {error}"]) from error
        positional = tuple(each.name for each in named if each.kind is Parameter.POSITIONAL_OR_KEYWORD)
        has_defaults = any(each.default is not Parameter.empty for each in named)
        fallible = frozenset(each.name for each in named if _accepts_failed(hints.get(each.name, Any)))
        items = frozenset(each.name for each in named if _has_failed_items(hints.get(each.name, Any)))
        return cls(name, positional, frozenset(each.name for each in named), known, exact, has_defaults, extra, fallible, items)

    def encode(self, args: Sequence[object], kwargs: Mapping[str, object], *, is_compared: bool = False) -> bytes:
        """Return the payload of a call with these arguments; ``PayloadInvalid`` names the path and the expected type.

        ``is_compared``: the same arguments in another order, in dicts and sets too, give the same bytes.
        """
        encoder = SORTING if is_compared else ENCODER
        payload = _encode(self._bind(args, kwargs), f"{self.name}: the payload", PAYLOAD_LIMIT, encoder)
        self.decode(payload)
        return payload

    def named(self, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, object]:
        """Return the arguments of a call by name, unchecked but for their names; ``PayloadInvalid`` for one too many."""
        return self._bind(args, kwargs)

    def without(self, names: frozenset[str]) -> "PayloadType":
        """Return the payload without these parameters, whose values come later from another place."""
        fields = [each for each in self._infos() if each.name not in names]
        kept = [
            (each.name, each.type) if each.required else (each.name, each.type, msgspec.field(default=UNSET)) for each in fields
        ]
        return structs.replace(
            self,
            positional=(),
            fields=self.fields - names,
            known=_decoder(msgspec.defstruct(self.name, kept)),
            exact=_decoder(msgspec.defstruct(self.name, kept, forbid_unknown_fields=True)),
        )

    def type_of(self, parameter: str) -> Any:
        """Return the annotation of a parameter."""
        return next(each.type for each in self._infos() if each.name == parameter)

    def _infos(self) -> tuple[structs.FieldInfo, ...]:
        known: Any = self.known.type  # msgspec 0.22 types it as a class, 0.23 as any form of a type
        return structs.fields(known)

    def decode(self, payload: bytes) -> tuple[dict[str, object], tuple[str, ...]]:
        """Return the handler's keyword arguments, and the names of fields it does not know (a newer release wrote them).

        Absent fields stay absent, so that the defaults of the code that runs apply.
        """
        try:
            given = structs.asdict(self.exact.decode(payload))
        except Exception:  # the call below finds what is wrong or merely new
            return self._decode_inexact(payload)
        if self.has_defaults:
            given = {name: value for name, value in given.items() if value is not UNSET}
        return given, ()

    def _decode_inexact(self, payload: bytes) -> tuple[dict[str, object], tuple[str, ...]]:
        try:
            present = _FIELDS.decode(payload)
            value = self.known.decode(payload)
            kwargs = {name: getattr(value, name) for name in present if name in self.fields}
            unknown = tuple(name for name in present if name not in self.fields)
            if self.extra is None:
                return kwargs, unknown
            return kwargs | {name: self._decode_extra(name, present[name]) for name in unknown}, ()
        except PayloadInvalid:
            raise
        except Exception as error:  # constructors of the user's types run here and may raise anything
            raise PayloadInvalid(f"{self.name}: {_explain(error)}") from error

    def _bind(self, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, object]:
        """Return the arguments by name. Python's own ``Signature.bind`` does the same in ten times the time."""
        bound = dict(zip(self.positional, args, strict=False))
        if len(args) > len(self.positional):
            raise PayloadInvalid(f"{self.name}: takes at most {len(self.positional)} positional arguments, got {len(args)}")
        if not kwargs:
            return bound
        if twice := bound.keys() & kwargs.keys():
            raise PayloadInvalid(f"{self.name}: multiple values for {', '.join(sorted(map(repr, twice)))}")
        if self.extra is None and (unknown := kwargs.keys() - self.fields):
            raise PayloadInvalid(f"{self.name}: takes no argument {', '.join(sorted(map(repr, unknown)))}")
        bound.update(kwargs)
        return bound

    def _decode_extra(self, name: str, value: Raw) -> object:
        assert self.extra is not None
        try:
            return self.extra.decode(value)
        except msgspec.ValidationError as error:
            raise PayloadInvalid(f"{self.name}: {error} - at `$.{name}`") from error


def annotations_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the resolved annotations of a handler; ``ConfigurationError`` if a name in them does not exist at run time."""
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        name = getattr(function, "__name__", repr(function))
        raise ConfigurationError(
            [f"task {name}: {error}; import the names in its annotations at module level, outside TYPE_CHECKING"]
        ) from error


def encode_payload(name: str, values: Mapping[str, object]) -> bytes:
    """Return a payload for a task whose code is not loaded: it is checked for JSON and size, not against a signature."""
    return _encode(values, f"{name}: the payload", PAYLOAD_LIMIT)


def key_in(payload: bytes, field: str) -> str:
    """Return a job's key, which this field of its payload holds; ``PayloadInvalid`` unless it is a string or an integer that can be one.

    >>> key_in(b'{"customer":7}', "customer")
    '7'
    """
    value = decode_json(payload).get(field)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise PayloadInvalid(f"the key {field!r} is a {type(value).__name__}: use a string or an integer")
    key = str(value)
    if len(key) > KEY_LIMIT or not key.isprintable():
        raise PayloadInvalid(f"the key {field!r} must have at most {KEY_LIMIT} printable characters")
    return key


def encode_result(value: object) -> bytes:
    """Return a handler's result as JSON; ``PayloadInvalid`` or ``PayloadTooLarge`` if that is not possible."""
    return _encode(value, "the result", RESULT_LIMIT)


def encode_checkpoint(value: object) -> bytes:
    """Return a checkpoint as JSON; ``PayloadInvalid`` or ``PayloadTooLarge`` if that is not possible."""
    return _encode(value, "the checkpoint", CHECKPOINT_LIMIT)


def encode_step(name: str, value: object) -> bytes:
    """Return what a step returned as JSON; ``PayloadInvalid`` or ``PayloadTooLarge`` if that is not possible."""
    return _encode(value, f"step {name!r}: its result", STEP_LIMIT)


def encode_signal(name: str, value: object) -> bytes:
    """Return the value of a signal as JSON; ``PayloadInvalid`` or ``PayloadTooLarge`` if that is not possible."""
    return _encode(value, f"signal {name!r}: its value", SIGNAL_LIMIT)


def decode_json(data: bytes, what: str = "") -> Json:
    """Return JSON as plain dicts, lists, strings, numbers, booleans and ``None``; ``PayloadInvalid`` names ``what`` has other bytes.

    >>> decode_json(b"[1]", "step 'charge': its result")
    [1]
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        problem = _HALF_OF_A_PAIR if _ENDS_IN_HALF_A_PAIR.search(data) else _explain(error)
        raise PayloadInvalid(f"{what}: {problem}" if what else problem) from error


def reader_of(kind: Any, what: str = "the result") -> Callable[[bytes], Any]:
    """Return a function that reads a stored result as this type, as a task is annotated with it.

    It reads plain JSON if values of the type cannot be made from JSON. ``ResultInvalid``, which names ``what``, for one that does not fit.

    >>> reader_of(tuple[int, int])(b"[1,2]")
    (1, 2)
    """
    try:
        decoder = _decoder(kind)
    except TypeError:
        return decode_json

    def read(data: bytes) -> Any:
        try:
            return decoder.decode(data)
        except Exception as error:  # constructors of the user's types run here and may raise anything
            if isinstance(error.__cause__, _NotFromJson):
                return decode_json(data)
            raise ResultInvalid(f"{what}: {_explain(error)}; the error's .result is what is stored", data) from error

    return read


def problem_of(kind: Any, data: bytes) -> str | None:
    """Return why JSON cannot be read as this type; ``None`` if it can.

    >>> problem_of(list[int], b'[1,"2"]')
    'Expected `int`, got `str` - at `$[1]`'
    """
    try:
        _decoder(kind).decode(data)
    except Exception as error:  # constructors of the user's types run here and may raise anything
        return _explain(error)
    return None


def cut_text(text: str, limit_bytes: int) -> str:
    """Return the text, cut to fit; a cut text ends in an ellipsis. Characters that UTF-8 cannot encode become ``?``.

    >>> cut_text("a long story", 9)
    'a long…'
    """
    # A message may fill the memory, and be of a subclass of str: convert it to str first, and encode no more than can be kept.
    data = "".join((text,))[: limit_bytes + 1].encode("utf-8", "replace")
    if len(data) <= limit_bytes:
        return data.decode()
    return data[: limit_bytes - len("…".encode())].decode("utf-8", "ignore") + "…"


def _problem_of(parameter: Parameter) -> str | None:
    match parameter.kind:
        case Parameter.VAR_POSITIONAL:
            return f"*{parameter.name} cannot be filled from JSON fields: use a list parameter"
        case Parameter.POSITIONAL_ONLY:
            return f"{parameter.name} is positional-only and cannot be filled by name: remove the '/'"
    return None


def _field(parameter: Parameter, kind: Any) -> tuple[str, Any] | tuple[str, Any, Any]:
    if parameter.default is Parameter.empty:
        return (parameter.name, kind)
    return (parameter.name, kind, msgspec.field(default=UNSET))


def _accepts_failed(kind: Any) -> bool:
    return kind in (Any, object, Failed) or Failed in get_args(kind)


def _has_failed_items(kind: Any) -> bool:
    return kind in (Any, object) or (get_origin(kind) in (list, Sequence) and _accepts_failed(get_args(kind)[0]))


def _without_failed(kind: Any) -> Any:
    """Return the type of a value that is read from JSON: a union without ``Failed``, because JSON does not show the difference."""
    if get_origin(kind) in (list, Sequence) and _has_failed_items(kind):
        return list[_without_failed(get_args(kind)[0])]  # type: ignore[misc] # a type at run time only
    if Failed not in get_args(kind):
        return Any if kind is Failed else kind
    return Union[tuple(each for each in get_args(kind) if each is not Failed)]  # noqa: UP007 – of a tuple, which `|` cannot write


def _decoder(kind: Any) -> "msgspec.json.Decoder[Any]":
    return msgspec.json.Decoder(kind, dec_hook=_from_json)


class _NotFromJson(TypeError):
    """Values of a type cannot be made from JSON."""


def _from_json(kind: type, value: object) -> object:
    """Read a Pydantic model from its JSON; it is recognised by its method, so that pydantic need not be installed.

    Anything is an ``object``.
    """
    if kind is object:
        return value
    validate = getattr(kind, "model_validate_json", None)
    if validate is None:
        raise _NotFromJson(
            f"`{kind.__name__}` cannot be read from JSON: use plain types, a dataclass, a TypedDict or a msgspec.Struct"
        )
    return validate(msgspec.json.encode(value))


def _to_json(value: object) -> object:
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"{type(value).__name__} is not JSON data: use plain types, a dataclass, a TypedDict or a msgspec.Struct")
    return dump(mode="json", by_alias=True)


def _encode(value: object, what: str, limit: int, encoder: "msgspec.json.Encoder | None" = None) -> bytes:
    try:
        data = (encoder or ENCODER).encode(value)
        # The encoder writes null for NaN and infinity; refuse them, because a number must not silently become null.
        is_finite = b"null" not in data or has_only_finite(value)
    except Exception as error:  # hooks and properties of the user's types run here and may raise anything
        raise PayloadInvalid(f"{what}: {_explain(error)}") from error
    if not is_finite:
        raise PayloadInvalid(f"{what}: NaN and infinity are not JSON numbers: use None or a string")
    if len(data) > limit:
        raise PayloadTooLarge(f"{what} has {len(data):,} bytes, at most {limit:,}: store it elsewhere and pass a reference")
    return data


def has_only_finite(value: object) -> bool:
    """Return whether a value without NaN and infinity is written as JSON.

    >>> has_only_finite({"temperature": [20.5, float("nan")]})
    False
    """
    waiting = [msgspec.to_builtins(value, enc_hook=_to_json)]
    while waiting:
        match waiting.pop():
            case float() as number if not math.isfinite(number):
                return False
            case dict() as fields:
                waiting.extend(fields.values())
            case list() | tuple() | set() | frozenset() as items:
                waiting.extend(items)
    return True


def _explain(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply, or a reference to itself"
    list_problems = getattr(error.__cause__, "errors", None)
    if callable(list_problems):
        return _problems_of_model(str(error), list_problems(include_url=False, include_input=False))
    return str(error) or type(error).__name__


def _problems_of_model(text: str, problems: Sequence[Mapping[str, Any]]) -> str:
    """Return pydantic's findings in the form of all other messages: what is wrong and the path to it, never the value itself."""
    found = _PATH.search(text)
    start = found[1] if found else "$"
    shown = [f"{problem['msg']} - at `{start}{_steps(problem['loc'])}`" for problem in problems[:SHOWN_PROBLEMS]]
    return "; ".join(shown) + (f"; and {len(problems) - len(shown)} more" if len(problems) > len(shown) else "")


def _steps(location: Sequence[str | int]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)


ENCODER = msgspec.json.Encoder(enc_hook=_to_json)
SORTING = msgspec.json.Encoder(enc_hook=_to_json, order="sorted")
_FIELDS = msgspec.json.Decoder(dict[str, Raw])
