"""From a handler's value or exception to its outcome; the same in the worker and in a runner process."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, assert_never, cast

from holdfast._core.fingerprint import error_key
from holdfast._core.job import Claim, Failure, Reason
from holdfast._core.outcome import ANSWERS, Cancel, Done, Fail, Invalid, Outcome, Raised, Retry, Snooze
from holdfast._core.payload import encode_result
from holdfast._engine.error_text import frames_of, qualified_name, text_of, trace_of, type_name
from holdfast._engine.tasks.registry import TaskDefinition
from holdfast.errors import JobLost, PayloadInvalid

PACKAGE = Path(__file__).parents[2]
OUR_FOLDERS = (str(PACKAGE / "_engine"), str(PACKAGE / "integrations" / "django"))
"""Code of Holdfast that calls handlers: a traceback begins behind its frames."""
NOTHING = Done(encode_result(None))


def decode(task: TaskDefinition, claim: Claim) -> tuple[dict[str, object], tuple[str, ...]] | Invalid:
    """Return the handler's arguments and the names of fields it does not know, or ``Invalid`` if the payload does not fit it."""
    try:
        if not claim.failed and not claim.failed_items:
            return task.payload.decode(claim.payload)
        failed = dict(claim.failed)
        arguments, unknown = task.payload.without(frozenset(failed)).decode(claim.payload)
        for parameter, position, why in claim.failed_items:
            cast(list[object], arguments[parameter]).insert(position, why)
        return {**arguments, **failed}, unknown
    except PayloadInvalid as error:
        return invalid_payload(error)


def invalid_payload(error: PayloadInvalid) -> Invalid:
    """Return the outcome of a job whose payload does not fit its handler."""
    return Invalid(Reason.PAYLOAD_INVALID, Failure(type_name(error), text_of(error), path=qualified_name(error)))


def outcome_of_value(value: object, task: str) -> Outcome:
    """Return the outcome of a handler's value. Total: a value that raises while it is read becomes a failure."""
    if value is None:
        return NOTHING
    try:
        if isinstance(value, ANSWERS):
            return _plain(value)
        return Done(encode_result(value))
    except PayloadInvalid as error:
        return Invalid(Reason.RESULT_INVALID, Failure(type_name(error), text_of(error), path=qualified_name(error)))
    except BaseException as error:
        return raised_by(error, task)


def outcome_of_error(error: BaseException, task: TaskDefinition, *, is_stopped: bool, saw_cancellation: bool) -> Outcome | None:
    """Return the outcome of a handler's exception; a group counts as its leaves. ``None``: its job was lost, or it was stopped.

    ``is_stopped``: the engine cancelled its code. ``saw_cancellation``: the code knew, so any exception is its reaction to that.
    Total: this code calls the user's classes, and one that raises is a failure like any other.
    """
    try:
        return _outcome_of_error(error, task, is_stopped=is_stopped, saw_cancellation=saw_cancellation)
    except BaseException:
        return None if is_stopped else raised_by(error, task.name)


def raised_by(error: BaseException, task: str, *, is_final: bool = False) -> Raised:
    """Return a failure of the handler, described as well as its exception permits."""
    path = qualified_name(error)
    key = error_key(task, Reason.HANDLER_ERROR, path, frames_of(error, OUR_FOLDERS))
    return Raised(Failure(type_name(error), text_of(error), trace_of(error, OUR_FOLDERS), path, key), is_final=is_final)


def _outcome_of_error(error: BaseException, task: TaskDefinition, *, is_stopped: bool, saw_cancellation: bool) -> Outcome | None:
    leaves = leaves_of(error)
    if any(isinstance(leaf, JobLost) for leaf in leaves):
        return None
    if len(leaves) == 1 and isinstance(leaves[0], ANSWERS):
        try:
            return _plain(leaves[0])
        except Exception as broken:
            return outcome_of_error(broken, task, is_stopped=is_stopped, saw_cancellation=saw_cancellation)
    if is_stopped and (saw_cancellation or all(map(_is_reaction, leaves))):
        return None
    return raised_by(error, task.name, is_final=any(task.is_final(leaf) for leaf in leaves))


def captured(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """Return the call's value and exception: neither a future nor a thread can carry a StopIteration or SystemExit."""
    try:
        return call(), None
    except BaseException as error:
        return None, error


def _plain(answer: Retry | Snooze | Cancel | Fail) -> Outcome:
    """Return the same answer made of plain values: no store needs to know how to write the user's subclass or reason."""
    match answer:
        case Retry():
            return Retry(answer.after, text_of(answer.reason))
        case Snooze():
            return Snooze(answer.for_)
        case Cancel():
            return Cancel(text_of(answer.reason))
        case Fail():
            return Fail(text_of(answer.reason))
        case _:
            assert_never(answer)


def _is_reaction(error: BaseException | None) -> bool:
    """Return whether a cancellation caused the error: a library often turns a cancellation into its own error."""
    seen = set[int]()
    while error is not None and id(error) not in seen:
        if isinstance(error, asyncio.CancelledError):
            return True
        seen.add(id(error))
        error = error.__context__ if error.__cause__ is None else error.__cause__
    return False


def leaves_of(error: BaseException) -> list[BaseException]:
    """Return the exceptions of a group in their order, each once. A loop, because groups may be nested deeper than the stack, and hold
    the same group many times."""
    leaves: list[BaseException] = []
    left, seen = [error], set[int]()
    while left:
        part = left.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, BaseExceptionGroup):
            left.extend(reversed(part.exceptions))
        else:
            leaves.append(part)
    return leaves
