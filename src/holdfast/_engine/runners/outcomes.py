"""From what a handler did to its outcome; the same wherever it runs, in the worker or in a runner process."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, assert_never

from holdfast._core.job import Failure, Reason
from holdfast._core.outcome import Cancel, Done, Fail, Invalid, Outcome, Raised, Retry, Snooze
from holdfast._core.payload import encode_result
from holdfast._engine.error_text import text_of, trace_of, type_name
from holdfast._engine.tasks.registry import TaskDefinition
from holdfast.errors import JobLost, PayloadInvalid

OUR_FOLDER = str(Path(__file__).parents[1])
ANSWERS = (Retry, Snooze, Cancel, Fail)
NOTHING = Done(encode_result(None))


def decode(task: TaskDefinition, payload: bytes) -> tuple[dict[str, object], tuple[str, ...]] | Invalid:
    """The handler's arguments and the names of fields it does not know, or that the payload does not fit it."""
    try:
        return task.payload.decode(payload)
    except PayloadInvalid as error:
        return Invalid(Reason.PAYLOAD_INVALID, Failure(type_name(error), text_of(error)))


def outcome_of_value(value: object) -> Outcome:
    """What a handler returned. Total: a value that raises when it is looked at is no JSON."""
    if value is None:
        return NOTHING
    try:
        if isinstance(value, ANSWERS):
            return _plain(value)
        return Done(encode_result(value))
    except PayloadInvalid as error:
        return Invalid(Reason.RESULT_INVALID, Failure(type_name(error), text_of(error)))
    except BaseException as error:
        return raised_by(error)


def outcome_of_error(error: BaseException, task: TaskDefinition, *, is_stopped: bool, was_told: bool) -> Outcome | None:
    """What an exception out of a handler means; a group counts as its leaves. ``None``: its job was lost, or it was stopped.

    ``is_stopped``: the engine wanted its code to end. ``was_told``: it knew, so whatever it raised is its answer to that.
    Total: the user's classes are asked here, and one that raises is a failure like any other.
    """
    try:
        return _judge_error(error, task, is_stopped=is_stopped, was_told=was_told)
    except BaseException:
        return None if is_stopped else raised_by(error)


def raised_by(error: BaseException, *, is_final: bool = False) -> Raised:
    """A failure of the handler, described as well as it can be."""
    return Raised(Failure(type_name(error), text_of(error), trace_of(error, OUR_FOLDER)), is_final=is_final)


def _judge_error(error: BaseException, task: TaskDefinition, *, is_stopped: bool, was_told: bool) -> Outcome | None:
    leaves = leaves_of(error)
    if any(isinstance(leaf, JobLost) for leaf in leaves):
        return None
    if len(leaves) == 1 and isinstance(leaves[0], ANSWERS):
        try:
            return _plain(leaves[0])
        except Exception as broken:
            return outcome_of_error(broken, task, is_stopped=is_stopped, was_told=was_told)
    if is_stopped and (was_told or all(map(_is_reaction, leaves))):
        return None
    return raised_by(error, is_final=any(task.is_final(leaf) for leaf in leaves))


def captured(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """What it returns, or raises, as values: neither a future nor a thread can carry a StopIteration or SystemExit."""
    try:
        return call(), None
    except BaseException as error:
        return None, error


def _plain(answer: Retry | Snooze | Cancel | Fail) -> Outcome:
    """The same answer made of plain values: what the user's subclass or reason is, no store needs to know how to write."""
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
    """Whether it was raised because the handler was cancelled: a library often turns a cancellation into an error of its own."""
    seen = set[int]()
    while error is not None and id(error) not in seen:
        if isinstance(error, asyncio.CancelledError):
            return True
        seen.add(id(error))
        error = error.__context__ if error.__cause__ is None else error.__cause__
    return False


def leaves_of(error: BaseException) -> list[BaseException]:
    """In their order, each once: groups may be nested deeper than the stack, and hold the same group many times."""
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
