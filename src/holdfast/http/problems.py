"""Errors as answers: RFC 9457 problems, each with a code for programs and a remedy for people."""

from typing import Final

import msgspec
from msgspec import Struct

from holdfast.errors import (
    ConfigurationError,
    HoldfastError,
    JobNotFound,
    PayloadInvalid,
    PayloadTooLarge,
    SchemaMissing,
    SchemaTooNew,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
    UniqueConflict,
    UnknownTask,
    Unsupported,
)

CONTENT_TYPE: Final = "application/problem+json"


class Problem(Struct, frozen=True, omit_defaults=True):
    """The body of an answer that is an error."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    remedy: str = ""
    job: str | None = None


class ApiError(Exception):
    """An error of the API itself."""

    def __init__(self, status: int, code: str, detail: str, remedy: str = "") -> None:
        super().__init__(detail)
        self.problem = problem(status, code, detail, remedy)


_TABLE: Final[dict[type[HoldfastError], tuple[int, str, str]]] = {
    JobNotFound: (404, "job_not_found", "check the id; jobs are deleted after their retention"),
    PayloadTooLarge: (413, "too_large", "store the data elsewhere, and pass a reference"),
    PayloadInvalid: (422, "payload_invalid", "correct the field named"),
    UnknownTask: (422, "unknown_task", "use one of the tasks named"),
    UniqueConflict: (409, "unique_conflict", "use another unique_key, or wait for the job named"),
    ConfigurationError: (422, "invalid", "correct the fields named"),
    Unsupported: (501, "unsupported", "use a store that can do this"),
    SchemaMissing: (503, "schema_missing", "run `holdfast migrate` for the broker's store"),
    SchemaTooNew: (503, "schema_too_new", "upgrade the broker"),
    StoreFull: (503, "store_full", "make room in the store, as the detail says"),
    StoreRefused: (503, "store_refused", "see the broker's log, and `holdfast check`"),
    StoreUnavailable: (503, "store_unavailable", "send it again: the outcome is unknown, and no call is done twice"),
}
RETRY_AFTER: Final = 1
"""Seconds after which a sender may come again, for every 503."""


def problem(status: int, code: str, detail: str, remedy: str = "", job: str | None = None) -> Problem:
    """Return a problem of this code."""
    return Problem(f"urn:holdfast:{code}", code.replace("_", " ").capitalize(), status, code, detail, remedy, job)


def problem_of(error: Exception) -> Problem:
    """Return the problem for any error; one that is not Holdfast's keeps its message to itself."""
    if isinstance(error, ApiError):
        return error.problem
    for kind in type(error).__mro__:
        if kind in _TABLE and isinstance(error, HoldfastError):
            status, code, remedy = _TABLE[kind]
            job = str(error.job) if isinstance(error, UniqueConflict) else None
            return problem(status, code, str(error), remedy, job)
    if isinstance(error, msgspec.ValidationError):
        return problem(422, "invalid", str(error), "correct the field named")
    return problem(500, "broken", "the broker failed", "see the broker's log")
