"""The log shows of a failure what the operator asked for: all of it, where it was raised, or its type."""

import traceback

from holdfast._core.failure_text import failure_text, frames_in, place_in
from holdfast._core.job import Failure

TRACE = """Traceback (most recent call last):
  File "/srv/shop/pages.py", line 7, in page
    line()
  File "/srv/shop/orders.py", line 118, in sync_line
    client.call(line["sku"])
  File "/venv/lib/python3.13/site-packages/bank/client.py", line 9, in call
    raise KeyError(name)
KeyError: 'sku'
"""
FAILURE = Failure("KeyError", "'sku'", TRACE)


def test_all_of_a_failure_is_shown_once_it_is_final() -> None:
    shown = failure_text(FAILURE, "full", is_final=True)
    assert str(shown) == "KeyError: 'sku' (shop/orders.py:118 in sync_line)"
    assert shown.traceback == TRACE.rstrip()
    assert failure_text(FAILURE, "full", is_final=False).traceback == ""


def test_where_shows_frames_without_messages_and_code() -> None:
    shown = failure_text(FAILURE, "where", is_final=True)
    assert str(shown) == "KeyError (shop/orders.py:118 in sync_line)"
    assert shown.traceback.splitlines() == TRACE.splitlines()[1:7:2]


def test_type_shows_the_type_only() -> None:
    assert str(failure_text(FAILURE, "type", is_final=True)) == "KeyError"
    assert failure_text(FAILURE, "type", is_final=True).traceback == ""


def test_a_long_message_is_cut_in_its_line() -> None:
    assert len(failure_text(Failure("E", "x" * 5000), "full", is_final=False).message) == 1001


def raised(error: Exception, cause: Exception | None = None) -> str:
    try:
        raise error from cause
    except Exception as caught:
        return "".join(traceback.format_exception(caught))


def inner() -> Exception:
    try:
        raise KeyError("inner")
    except KeyError as error:
        return error


def test_the_place_is_where_the_exception_itself_was_raised_and_not_its_cause() -> None:
    assert place_in(raised(ValueError("outer"), inner())).endswith(" in raised")
    assert place_in(raised(ExceptionGroup("many", [inner()]))).endswith(" in raised")
    assert place_in("") == ""


def test_frames_hold_no_line_of_a_message() -> None:
    text = frames_in(raised(ValueError("first\nsecond"), inner()))
    assert text.count("File ") == 2
    assert "second" not in text
