"""The errors of a store on the wire: each crosses it as its type, its message and its fields."""

from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct

from holdfast import errors
from holdfast._core.job import State
from holdfast.errors import ConfigurationError, HoldfastError, StoreBusy, StoreUnavailable, UniqueConflict


class Problem(Struct, frozen=True, omit_defaults=True):
    """An error as it is sent. Only a ``ConfigurationError``, a ``UniqueConflict`` and a ``StoreBusy`` have fields."""

    type: str
    message: str
    problems: tuple[str, ...] = ()
    job: UUID | None = None
    jobs: frozenset[UUID] = frozenset()
    lost: frozenset[UUID] = frozenset()
    states: dict[UUID, State] = {}


_PLAIN: Final = (
    "JobNotFound",
    "PayloadInvalid",
    "PayloadTooLarge",
    "SchemaMissing",
    "SchemaTooNew",
    "UnknownTask",
    "Unsupported",
)
_OF_STORE: Final = ("StoreDamaged", "StoreFull", "StoreRefused", "StoreUnavailable")
_KNOWN: Final = {name: getattr(errors, name) for name in (*_PLAIN, *_OF_STORE, "HoldfastError")}
_encoder = msgspec.msgpack.Encoder(uuid_format="bytes")
_decoder = msgspec.msgpack.Decoder(Problem)


def encode_error(error: BaseException) -> bytes:
    """Encode an error of a verb; one that is not Holdfast's becomes ``StoreUnavailable`` without its message."""
    return _encoder.encode(_problem_of(error))


def decode_error(body: bytes) -> HoldfastError:
    """Return the error that was sent. Raises ``msgspec.MsgspecError`` if the bytes are none."""
    problem = _decoder.decode(body)
    match problem.type:
        case "ConfigurationError":
            return ConfigurationError(problem.problems)
        case "UniqueConflict":
            return UniqueConflict(problem.message, problem.job)
        case "StoreBusy":
            return StoreBusy(problem.message, problem.jobs, problem.lost, problem.states)
        case known:
            error: HoldfastError = _KNOWN.get(known, StoreUnavailable)(problem.message)
            return error


def _problem_of(error: BaseException) -> Problem:
    match error:
        case ConfigurationError():
            return Problem("ConfigurationError", str(error), problems=tuple(error.problems))
        case UniqueConflict():
            return Problem("UniqueConflict", str(error), job=error.job if isinstance(error.job, UUID) else None)
        case StoreBusy():
            return Problem("StoreBusy", str(error), jobs=error.jobs, lost=error.lost, states=dict(error.states))
        case HoldfastError():
            name = next(kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _KNOWN)
            return Problem(name, str(error))
        case _:
            return Problem("StoreUnavailable", f"the broker's store failed with {type(error).__name__}: see the broker's log")
