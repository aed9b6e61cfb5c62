"""Errors as answers: RFC 9457 problems, each with a code for programs and a remedy for people."""

import re
from typing import Final

import msgspec
from msgspec import Struct, structs

from holdfast._core.release import UPGRADE
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


class Fault(Struct, frozen=True):
    """One thing that is wrong with the input. ``pointer``: where, as a JSON pointer; empty if it is about all of it."""

    pointer: str
    detail: str


class Problem(Struct, frozen=True, omit_defaults=True):
    """The body of an answer that is an error. ``problems``: everything that is wrong with the input."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    remedy: str = ""
    job: str | None = None
    problems: list[Fault] = []


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
    SchemaMissing: (503, "schema_missing", "run `holdfast migrate --url URL` with the URL of the broker's store"),
    SchemaTooNew: (503, "schema_too_new", f"at the broker, {UPGRADE}"),
    StoreFull: (503, "store_full", "make room in the store, as the detail says"),
    StoreRefused: (
        503,
        "store_refused",
        "see the broker's log, and `holdfast check --url URL` with the URL of the broker's store",
    ),
    HoldfastError: (500, "failed", "do what the detail says"),
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
            faults = [_fault(each) for each in error.problems] if isinstance(error, ConfigurationError) else []
            return structs.replace(problem(status, code, str(error), remedy, job), problems=faults)
    if isinstance(error, msgspec.ValidationError):
        found = problem(422, "invalid", str(error), "correct the field named")
        return structs.replace(found, problems=[_fault_of_type(str(error))])
    return problem(500, "broken", "the broker failed", "see the broker's log")


_FIELD: Final = re.compile(r"(\w+)[=:]")
_PATH: Final = re.compile(r" - at `\$(.*)`$")
_UNKNOWN: Final = re.compile(r"^Object contains unknown field `(.*)`$|^Object missing required field `(.*)`$")


def _fault(text: str) -> Fault:
    """Return a finding about the settings of a call: its text begins with the name of the field."""
    found = _FIELD.match(text)
    return Fault(f"/{found[1]}" if found else "", text)


def _fault_of_type(text: str) -> Fault:
    """Return what msgspec found, with its path as a JSON pointer.

    >>> _fault_of_type("Expected `int`, got `str` - at `$.options.max_attempts`").pointer
    '/options/max_attempts'
    >>> _fault_of_type("Object contains unknown field `tusk`").pointer
    '/tusk'
    """
    path, detail = _PATH.search(text), _PATH.sub("", text)
    steps = "" if path is None else re.sub(r"\[(\w*|\.\.\.)\]", r"/\1", path[1]).replace(".", "/")
    named = _UNKNOWN.match(detail)
    return Fault(steps + (f"/{named[1] or named[2]}" if named else ""), detail)
