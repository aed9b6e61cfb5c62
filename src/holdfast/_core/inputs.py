"""The parameters of a job that are results of other jobs, filled into its payload before its handler starts."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, get_args, get_origin
from uuid import UUID

import msgspec
from msgspec import Raw, Struct

from holdfast._core.job import Failed, Failure, NoResult
from holdfast._core.member import Input
from holdfast._core.payload import PAYLOAD_LIMIT, PayloadType, problem_of
from holdfast._core.workflow import Items, Output
from holdfast.errors import PayloadInvalid

INPUTS_LIMIT = 16 * 1024 * 1024
"""Bytes of all results that one job gets: they are in memory at once, beside those of all other jobs of the worker."""

MOST_ITEMS = 10_000
"""The items of one list that a workflow runs a member for."""
NOT_AVAILABLE = Failed(NoResult.RESULT_NOT_AVAILABLE)

_LIST = msgspec.json.Decoder(list[Raw])
_FIELDS = msgspec.json.Decoder(dict[str, Raw])
_NO_FIELDS = b"{}"


class ResultUnfit(PayloadInvalid):
    """The result of another job cannot be the parameter, or the item of it, at ``place``. ``problem``: what is wrong with the result."""

    def __init__(self, task: str, place: str, parent: UUID, problem: str) -> None:
        super().__init__(f"{task}: {place}: the result of the job {parent} {problem}")
        self.task, self.place, self.parent, self.problem = task, place, parent, problem

    def named(self, node: str) -> PayloadInvalid:
        """Return the error with the name that the workflow has for the other job."""
        return PayloadInvalid(f"{self.task}: {self.place}: the result of the node {node!r} {self.problem}")


class Filled(Struct, frozen=True):
    """A payload with all results, and what gets a ``Failed`` instead: parameters, and items of lists by their positions."""

    payload: bytes
    failed: tuple[tuple[str, Failed], ...] = ()
    failed_items: tuple[tuple[str, int, Failed], ...] = ()


def fill(accepts: PayloadType, payload: bytes, inputs: Sequence[Input], outputs: Mapping[UUID, Output]) -> Filled:
    """Return a payload with the results of other jobs; ``outputs``: also those of the items that others name.

    Raises ``ResultUnfit`` for a missing result whose parameter does not accept a ``Failed`` and for a path that the result does not have,
    ``PayloadInvalid`` for more than ``INPUTS_LIMIT`` bytes in all.
    """
    parameters = {each.parameter: each for each in inputs}
    found = {name: _found(each, inputs, outputs) for name, each in parameters.items()}
    _require_room(accepts, {name: _size_of(output, outputs) for name, output in found.items()})
    fields, failed, failed_items = _FIELDS.decode(payload), dict[str, Failed](), list[tuple[str, int, Failed]]()
    for name, each in parameters.items():
        result = found[name]
        if isinstance(result, Items):
            result, missing = _list_of(result, outputs)
            failed_items += [(name, position, why) for position, why in missing]
            if missing and name not in accepts.fallible_items:
                position, why = missing[0]
                parent = [other.parent for other in inputs if other.parameter == name][position if each.is_item else 0]
                raise ResultUnfit(accepts.name, f"{name}[{position}]", parent, f"is missing: {why.reason}")
        if isinstance(result, bytes):
            fields[name] = _at(accepts, each, result)
        elif name in accepts.fallible:
            failed[name] = result
        else:
            raise ResultUnfit(accepts.name, name, each.parent, f"is missing: {result.reason}")
    return Filled(msgspec.json.encode(fields), tuple(sorted(failed.items())), tuple(failed_items))


def fill_brought(payload: bytes, inputs: Sequence[Input], results: Sequence[bytes | None]) -> bytes | None:
    """Return a payload with results that a claim has brought; ``None`` if one of them is missing, or is not a parameter as it is."""
    if len(results) < len(inputs):
        return None
    fields = {} if payload == _NO_FIELDS else _FIELDS.decode(payload)
    for each, result in zip(inputs, results, strict=True):
        if result is None or each.path or each.is_item:
            return None
        fields[each.parameter] = Raw(result)
    return msgspec.json.encode(fields)


def unfit(accepts: PayloadType, filled: Filled, inputs: Sequence[Input]) -> ResultUnfit | None:
    """Return the first result that its parameter does not take, each read apart from all others, of a payload that cannot be decoded."""
    fields = _FIELDS.decode(filled.payload)
    for parameter in dict.fromkeys(each.parameter for each in inputs if each.parameter in fields):
        parents = [each.parent for each in inputs if each.parameter == parameter]
        missing = {position for name, position, _ in filled.failed_items if name == parameter}
        for position, kind, value in _items(accepts.type_of(parameter), fields[parameter], missing):
            if (problem := problem_of(kind, value)) is not None:
                parent = parents[position if len(parents) > 1 else 0]
                return ResultUnfit(accepts.name, f"{parameter}[{position}]", parent, f"does not fit: {problem}")
        if len(parents) == 1 and (problem := problem_of(accepts.type_of(parameter), fields[parameter])) is not None:
            return ResultUnfit(accepts.name, parameter, parents[0], f"does not fit: {problem}")
    return None


def spread(accepts: PayloadType, payload: bytes, inputs: Sequence[Input], outputs: Mapping[UUID, Output]) -> list[bytes]:
    """Return the payload of each item of a member that runs once for each: with the item in place of its list.

    The results that all items share are left out: each item reads them when it is claimed. Raises ``PayloadInvalid`` as ``fill`` does, for
    a result that is not a list, for lists of different lengths and for more than ``MOST_ITEMS``.
    """
    lists = [each for each in inputs if each.is_each]
    fields = _FIELDS.decode(payload)
    found = _FIELDS.decode(fill(accepts, payload, lists, outputs).payload)
    columns = {each.parameter: _items_of(accepts, each.parameter, found[each.parameter]) for each in lists}
    sizes = {name: len(items) for name, items in columns.items()}
    if len(set(sizes.values())) > 1:
        named = ", ".join(f"{name} {size:,}" for name, size in sorted(sizes.items()))
        raise PayloadInvalid(f"{accepts.name}: the lists have different lengths: {named}")
    if max(sizes.values()) > MOST_ITEMS:
        raise PayloadInvalid(
            f"{accepts.name}: {max(sizes.values()):,} items, at most {MOST_ITEMS:,}: give each job several of them"
        )
    rows = zip(*columns.values(), strict=True)
    payloads = [msgspec.json.encode({**fields, **dict(zip(columns, row, strict=True))}) for row in rows]
    if any(len(each) > PAYLOAD_LIMIT for each in payloads):
        raise PayloadInvalid(f"{accepts.name}: an item makes a payload of more than {PAYLOAD_LIMIT:,} bytes: store it elsewhere")
    return payloads


def whole(output: Output, outputs: Mapping[UUID, Output]) -> bytes | Failed:
    """Return an outcome, with the results of all items as a list; ``Failed`` if one of them has none, or they are too large."""
    if not isinstance(output, Items):
        return output
    if is_too_large(outputs):
        return Failed(
            NoResult.RESULT_NOT_AVAILABLE,
            Failure("PayloadTooLarge", f"the results of its items have more than {INPUTS_LIMIT:,} bytes"),
        )
    result, missing = _list_of(output, outputs)
    return missing[0][1] if missing else result


def is_too_large(outputs: Mapping[UUID, Output]) -> bool:
    """Return whether these results alone are more than a job gets, so that reading more of them has no use."""
    return sum(len(each) for each in outputs.values() if isinstance(each, bytes)) > INPUTS_LIMIT


def _found(wanted: Input, inputs: Sequence[Input], outputs: Mapping[UUID, Output]) -> Output:
    if wanted.is_item:
        return Items(tuple(each.parent for each in inputs if each.parameter == wanted.parameter))
    return outputs.get(wanted.parent, NOT_AVAILABLE)


def _require_room(accepts: PayloadType, sizes: Mapping[str, int]) -> None:
    if sum(sizes.values()) > INPUTS_LIMIT:
        named = ", ".join(f"{name} {size:,}" for name, size in sorted(sizes.items()) if size)
        raise PayloadInvalid(f"{accepts.name}: results of {sum(sizes.values()):,} bytes, at most {INPUTS_LIMIT:,}: {named}")


def _size_of(output: Output, outputs: Mapping[UUID, Output]) -> int:
    if isinstance(output, Items):
        return sum(_size_of(outputs.get(job, NOT_AVAILABLE), outputs) for job in output.jobs)
    return len(output) if isinstance(output, bytes) else 0


def _list_of(items: Items, outputs: Mapping[UUID, Output]) -> tuple[bytes, list[tuple[int, Failed]]]:
    """Return the results of items as a list, and those that have none, by their positions."""
    found = [outputs.get(job, NOT_AVAILABLE) for job in items.jobs]
    results = [each for each in found if isinstance(each, bytes)]
    return b"[%b]" % b",".join(results), [(place, each) for place, each in enumerate(found) if isinstance(each, Failed)]


def _items(kind: Any, value: Raw, missing: Collection[int]) -> Iterator[tuple[int, Any, Raw]]:
    """Yield the items of a list with the positions that they have among those that are missing, and their types; none of another value."""
    kinds, is_list = get_args(kind), get_origin(kind) in (list, Sequence, tuple)
    try:
        items = _LIST.decode(value) if is_list else []
    except msgspec.MsgspecError:
        return
    if get_origin(kind) is not tuple or kinds[-1] is Ellipsis:
        kinds = kinds[:1] * len(items)
    positions = [place for place in range(len(items) + len(missing)) if place not in missing]
    yield from zip(positions, kinds, items, strict=False)


def _items_of(accepts: PayloadType, parameter: str, value: Raw) -> list[Raw]:
    try:
        return _LIST.decode(value)
    except msgspec.MsgspecError as error:
        raise PayloadInvalid(f"{accepts.name}: {error}: each(…) takes a list - at `$.{parameter}`") from error


def _at(accepts: PayloadType, wanted: Input, result: bytes) -> Raw:
    value = Raw(result)
    for step in wanted.path:
        try:
            value = _FIELDS.decode(value)[step]
        except (msgspec.MsgspecError, KeyError) as error:
            problem = f"has no {'.'.join(wanted.path)!r}"
            raise ResultUnfit(accepts.name, wanted.parameter, wanted.parent, problem) from error
    return value
