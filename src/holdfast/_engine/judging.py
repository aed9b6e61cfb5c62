"""From what a handler did to its outcome; the same wherever it runs, in the worker or in a runner process."""

import asyncio
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, assert_never

from holdfast._core.job import Failure, Reason
from holdfast._core.outcome import Cancel, Done, Fail, Invalid, Outcome, Raised, Retry, Snooze
from holdfast._core.payload import ERROR_TEXT_LIMIT, cut_text, encode_result
from holdfast._engine.registry import TaskDefinition
from holdfast.errors import JobLost, PayloadInvalid

OUR_FOLDER = str(Path(__file__).parent)
ANSWERS = (Retry, Snooze, Cancel, Fail)
NOTHING = Done(encode_result(None))


def decode(task: TaskDefinition, payload: bytes) -> tuple[dict[str, object], tuple[str, ...]] | Invalid:
    """The handler's arguments and the names of fields it does not know, or that the payload does not fit it."""
    try:
        return task.payload.decode(payload)
    except PayloadInvalid as error:
        return Invalid(Reason.PAYLOAD_INVALID, Failure(type(error).__name__, str(error)))


def judge_value(value: object) -> Outcome:
    """What a handler returned."""
    if value is None:
        return NOTHING
    if isinstance(value, ANSWERS):
        return _plain(value)
    try:
        return Done(encode_result(value))
    except PayloadInvalid as error:
        return Invalid(Reason.RESULT_INVALID, Failure(type(error).__name__, str(error)))


def judge_error(error: BaseException, task: TaskDefinition, *, is_stopped: bool, was_told: bool) -> Outcome | None:
    """What an exception out of a handler means; a group counts as its leaves. ``None``: its job was lost, or it was stopped.

    ``is_stopped``: the engine wanted its code to end. ``was_told``: it knew, so whatever it raised is its answer to that.
    """
    leaves = tuple(_leaves(error))
    if any(isinstance(leaf, JobLost) for leaf in leaves):
        return None
    if len(leaves) == 1 and isinstance(leaves[0], ANSWERS):
        try:
            return _plain(leaves[0])
        except Exception as broken:
            return judge_error(broken, task, is_stopped=is_stopped, was_told=was_told)
    if is_stopped and (was_told or all(map(_is_reaction, leaves))):
        return None
    failure = Failure(type(error).__name__, _text(error), cut_text(_trace(error), ERROR_TEXT_LIMIT))
    return Raised(failure, is_final=any(task.is_final(leaf) for leaf in leaves))


def contained(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """What it returns, or raises, as values: neither a future nor a thread can carry a StopIteration or SystemExit."""
    try:
        return call(), None
    except BaseException as error:
        return None, error


def _plain(answer: Retry | Snooze | Cancel | Fail) -> Outcome:
    """The same answer made of plain values: what the user's subclass or reason is, no store needs to know how to write."""
    match answer:
        case Retry():
            return Retry(answer.after, _text(answer.reason))
        case Snooze():
            return Snooze(answer.for_)
        case Cancel():
            return Cancel(_text(answer.reason))
        case Fail():
            return Fail(_text(answer.reason))
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


def _text(value: object) -> str:
    """Its text, cut; an exception whose own ``__str__`` is broken must not end the worker."""
    try:
        return cut_text(str(value), ERROR_TEXT_LIMIT)
    except Exception as broken:
        return f"(its message cannot be read: {type(broken).__name__})"


def _trace(error: BaseException) -> str:
    """File, line and function of each frame from the handler on; no source text's values, no locals."""
    frames = error.__traceback__
    while frames is not None and frames.tb_next is not None and frames.tb_frame.f_code.co_filename.startswith(OUR_FOLDER):
        frames = frames.tb_next
    try:
        return "".join(traceback.format_exception(type(error), error, frames))
    except Exception:
        return ""


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from _leaves(part)
    else:
        yield error
