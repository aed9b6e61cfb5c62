"""The parameters of a job that are results of other jobs, filled into its payload before its handler starts."""

from collections.abc import Mapping, Sequence
from uuid import UUID

import msgspec
from msgspec import Raw, Struct

from holdfast._core.job import Failed, NoResult
from holdfast._core.member import Input
from holdfast._core.payload import PayloadType
from holdfast._core.workflow import Output
from holdfast.errors import PayloadInvalid

INPUTS_LIMIT = 16 * 1024 * 1024
"""Bytes of all results that one job gets: they are in memory at once, beside those of all other jobs of the worker."""

_FIELDS = msgspec.json.Decoder(dict[str, Raw])


class Filled(Struct, frozen=True):
    """A payload with all results, and the parameters that get a ``Failed`` instead."""

    payload: bytes
    failed: tuple[tuple[str, Failed], ...] = ()


def fill(accepts: PayloadType, payload: bytes, inputs: Sequence[Input], outputs: Mapping[UUID, Output]) -> Filled:
    """Return a payload with the results of other jobs.

    Raises ``PayloadInvalid`` for a missing result whose parameter does not accept a ``Failed``, for a path that the result does not have,
    and for more than ``INPUTS_LIMIT`` bytes in all.
    """
    found = {each.parent: outputs.get(each.parent, Failed(NoResult.RESULT_NOT_AVAILABLE)) for each in inputs}
    sizes = {each.parameter: len(result) for each in inputs if isinstance(result := found[each.parent], bytes)}
    if sum(sizes.values()) > INPUTS_LIMIT:
        named = ", ".join(f"{name} {size:,}" for name, size in sorted(sizes.items()))
        raise PayloadInvalid(f"{accepts.name}: results of {sum(sizes.values()):,} bytes, at most {INPUTS_LIMIT:,}: {named}")
    fields, failed = _FIELDS.decode(payload), dict[str, Failed]()
    for each in inputs:
        result = found[each.parent]
        if isinstance(result, bytes):
            fields[each.parameter] = _at(accepts, each, result)
        elif each.parameter in accepts.fallible:
            failed[each.parameter] = result
        else:
            raise PayloadInvalid(f"{accepts.name}: there is no result: {result.reason} - at `$.{each.parameter}`")
    return Filled(msgspec.json.encode(fields), tuple(sorted(failed.items())))


def _at(accepts: PayloadType, wanted: Input, result: bytes) -> Raw:
    value = Raw(result)
    for step in wanted.path:
        try:
            value = _FIELDS.decode(value)[step]
        except (msgspec.MsgspecError, KeyError) as error:
            path = ".".join(wanted.path)
            raise PayloadInvalid(f"{accepts.name}: the result has no {path!r} - at `$.{wanted.parameter}`") from error
    return value
