"""Describe any exception. The user's classes decide most of what an exception answers, and each of their methods may raise."""

import traceback
from types import TracebackType

from holdfast._core.fingerprint import Frame
from holdfast._core.payload import ERROR_TEXT_LIMIT, cut_text

NAME_LIMIT = 256
MOST_PARTS = 1000
"""Exceptions described one by one. Groups that share their parts are small in memory, and endless when they are written out."""
_name, _module, _qualified = (vars(type)[each] for each in ("__name__", "__module__", "__qualname__"))


def type_name(error: BaseException) -> str:
    """Return the class name as the interpreter knows it, even if a metaclass overrides it."""
    return cut_text(_name.__get__(type(error)), NAME_LIMIT)


def qualified_name(error: BaseException) -> str:
    """Return the class with its module, as the interpreter knows both.

    >>> qualified_name(KeyError(1))
    'builtins.KeyError'
    """
    kind = type(error)
    try:
        return cut_text(f"{_module.__get__(kind)}.{_qualified.__get__(kind)}", NAME_LIMIT)
    except BaseException:
        return type_name(error)


def text_of(value: object) -> str:
    """Return the value's string, cut to the limit. If ``str`` raises, even ``SystemExit``, return a note that it cannot be read."""
    try:
        return cut_text(str(value), ERROR_TEXT_LIMIT)
    except BaseException as broken:
        return f"(its message cannot be read: {type_name(broken)})"


def described(error: BaseException) -> str:
    """Return class and text in one line.

    >>> described(ValueError("bad")), described(TimeoutError())
    ('ValueError: bad', 'TimeoutError')
    """
    return f"{type_name(error)}: {text_of(error)}".removesuffix(": ")


def trace_of(error: BaseException, ours: str | tuple[str, ...]) -> str:
    """Return file, line and function of each frame from the handler on, without values of locals; empty if it cannot be read.

    ``ours``: the folders whose frames come before the handler's.
    """
    for describe in (_with_causes, _frames):
        try:
            return cut_text("".join(describe(error, _handlers_part(error, ours))), ERROR_TEXT_LIMIT)
        except BaseException:
            continue
    return ""


def frames_of(error: BaseException, ours: str | tuple[str, ...]) -> list[Frame]:
    """Return the same frames for a fingerprint; none if they cannot be read."""
    try:
        return [
            Frame(frame.f_code.co_filename, str(frame.f_globals.get("__name__", "")), frame.f_code.co_qualname)
            for frame, _ in traceback.walk_tb(_handlers_part(error, ours))
        ]
    except BaseException:
        return []


def _handlers_part(error: BaseException, ours: str | tuple[str, ...]) -> TracebackType | None:
    frames = error.__traceback__
    while frames is not None and frames.tb_next is not None and frames.tb_frame.f_code.co_filename.startswith(ours):
        frames = frames.tb_next
    return frames


def _with_causes(error: BaseException, frames: TracebackType | None) -> list[str]:
    parts, left = 0, [error]
    while left:
        part, parts = left.pop(), parts + 1
        if parts > MOST_PARTS:
            raise RecursionError
        left += part.exceptions if isinstance(part, BaseExceptionGroup) else ()
        left += (each for each in (part.__cause__, part.__context__) if each is not None)
    return traceback.format_exception(type(error), error, frames)


def _frames(error: BaseException, frames: TracebackType | None) -> list[str]:
    return [*traceback.format_tb(frames), described(error)]
