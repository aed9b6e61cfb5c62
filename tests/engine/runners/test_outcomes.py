"""Every exception has an outcome: one that cannot be described fails its job like any other, and frees its slot."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast._core.fingerprint import Frame, error_key
from holdfast._core.job import AttemptOutcome, Failure
from holdfast._core.outcome import Raised, Retry
from holdfast._core.payload import ERROR_TEXT_LIMIT
from holdfast._core.text import json_text
from holdfast._engine.error_text import described
from holdfast._engine.runners import messages
from holdfast._engine.runners.outcomes import outcome_of_error, outcome_of_value
from holdfast._engine.tasks.registry import define
from holdfast._engine.worker import executor as executor_module
from tests.engine.runners.test_process import Scene
from tests.engine.support import Bench, claim

RAISED = (RuntimeError, RecursionError, MemoryError, KeyboardInterrupt, SystemExit, GeneratorExit, StopIteration)
ASKED = ("__str__", "__repr__", "__notes__", "__traceback__", "__cause__", "__context__", "__class__", "__suppress_context__")


def rubbish(asked: tuple[str, ...], raised: type[BaseException], base: type[BaseException] = Exception) -> BaseException:
    """Return an exception that raises when one of these attributes is read."""

    def refuse(self: object) -> Any:
        raise raised

    return type("Rubbish", (base,), {name: property(refuse) if name not in ASKED[:2] else refuse for name in asked})()


def nested(depth: int, leaf: BaseException) -> BaseException:
    """Return the exception inside this many nested groups."""
    for _ in range(depth):
        leaf = BaseExceptionGroup("deeper", [leaf])
    return leaf


def tangled(depth: int) -> BaseException:
    """Return groups that contain the same group twice: as a tree, 2 to the power of `depth` leaves."""
    part: BaseException = ValueError("leaf")
    for _ in range(depth):
        part = BaseExceptionGroup("twice", [part, part])
    return part


class Meta(type):
    """The type of a class whose name cannot be read."""

    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise KeyboardInterrupt


class Nameless(Exception, metaclass=Meta):
    """An exception whose class raises when its name is read."""


class Text(str):
    """A string that cannot be encoded or cut."""

    def encode(self, *_: Any) -> bytes:
        raise SystemExit(3)

    def __getitem__(self, _: Any) -> str:
        raise SystemExit(3)


class Strange(Exception):
    """An exception whose message is not a plain `str`."""

    def __str__(self) -> str:
        return Text("strange")


class Endless(Exception):
    """An exception whose message needs more stack than there is."""

    def __str__(self) -> str:
        return str(self)


class Answer(Retry):
    """An outcome that raises when its reason is read."""

    def __init__(self) -> None:
        self.after = None

    @property
    def reason(self) -> str:  # type: ignore[override]
        raise SystemExit(3)


KINDS = [
    nested(2000, ValueError("deep")),
    nested(2000, rubbish(ASKED, SystemExit)),
    tangled(60),
    Nameless("nameless"),
    Strange(),
    Endless(),
    Answer(),
    ValueError("x" * 5_000_000),
    ValueError("\ud800\0" * 10_000),
    type("X" * 100_000, (Exception,), {})(),
    *(rubbish((name,), raised) for name in ASKED for raised in (RecursionError, SystemExit)),
    *(rubbish(ASKED, raised, base) for raised in RAISED for base in (KeyboardInterrupt, SystemExit, GeneratorExit)),
]


def require_plain(failure: Failure | None) -> None:
    """Fail unless the failure is plain strings, short enough, and valid for every store."""
    assert failure is not None
    assert all(type(part) is str for part in (failure.type, failure.message, failure.traceback))
    assert len(failure.type) <= 256
    assert re.fullmatch("[0-9a-f]{16}", failure.key)
    assert max(len(failure.message.encode()), len(failure.traceback.encode())) <= ERROR_TEXT_LIMIT
    json_text(failure)


async def handler() -> None: ...


TASK = define(handler, fail_for=OSError)


@pytest.mark.parametrize("number", range(len(KINDS)))
@pytest.mark.parametrize("kind", ["loop", "thread", "returned"])
async def test_s6_an_exception_that_cannot_be_described_ends_its_attempt_and_frees_its_slot(number: int, kind: str) -> None:
    error = KINDS[number]

    async def in_loop() -> object:
        if kind == "returned":
            return error
        raise error

    def in_thread() -> None:
        raise error

    task = define(in_thread if kind == "thread" else in_loop)
    bench = Bench(task)
    bench.executor.start(claim(task))
    await bench.until_ended()
    assert bench.executor.running == {}
    assert bench.reports.code_running == [True, False]
    moved = bench.ended[0].transition
    assert moved is not None
    if kind != "returned" or issubclass(type(error), Retry):
        assert moved.record is AttemptOutcome.FAILED
    require_plain(moved.error)


async def test_s6_a_runner_process_reports_every_exception_and_goes_on() -> None:
    def handler() -> None:
        raise errors.pop()

    errors = list(KINDS)
    async with Scene(handler) as scene:
        await scene.next(messages.Ready)
        for _ in KINDS:
            scene.send(messages.Run(scene.claim()))
            await scene.next(messages.RunStarted)
            verdict = (await scene.next(messages.RunEnded)).verdict
            assert verdict is not None
            outcome = verdict.outcome()
            assert isinstance(outcome, Raised)
            require_plain(outcome.failure)


@settings(deadline=None, max_examples=50)
@given(
    asked=st.sets(st.sampled_from(ASKED)),
    raised=st.sampled_from(RAISED),
    base=st.sampled_from((Exception, OSError, KeyboardInterrupt, SystemExit, GeneratorExit, Retry)),
    depth=st.sampled_from((0, 1, 9, 2000)),
    is_stopped=st.booleans(),
    saw_cancellation=st.booleans(),
)
def test_no_exception_makes_its_outcome_or_its_description_raise(
    asked: set[str], raised: type[BaseException], base: type[BaseException], depth: int, is_stopped: bool, saw_cancellation: bool
) -> None:
    error = nested(depth, rubbish(tuple(asked - {"__class__"} if depth else asked), raised, base))  # A group reads `__class__`.
    outcome = outcome_of_error(error, TASK, is_stopped=is_stopped, saw_cancellation=saw_cancellation)
    if isinstance(outcome, Raised):
        require_plain(outcome.failure)
    else:
        assert outcome is None or base is Retry
    assert is_stopped or outcome is not None
    assert type(described(error)) is str
    assert outcome_of_value(error, TASK.name) is not None


def here(kind: type[Exception], message: str) -> None:
    raise kind(message)


def there(kind: type[Exception], message: str) -> None:
    raise kind(message)


def test_failures_share_a_key_if_one_function_of_one_task_raised_one_class() -> None:
    def key_of(call: Callable[[type[Exception], str], None], kind: type[Exception], message: str = "", name: str = "sync") -> str:
        try:
            call(kind, message)
        except Exception as error:
            outcome = outcome_of_error(error, define(handler, name=name), is_stopped=False, saw_cancellation=False)
        assert isinstance(outcome, Raised)
        return outcome.failure.key

    key = key_of(here, KeyError)
    frame = Frame(__file__, __name__, "here")
    assert key == key_of(here, KeyError, "another") == error_key("sync", "HANDLER_ERROR", "builtins.KeyError", [frame])
    namesake = type("KeyError", (KeyError,), {})
    assert len({key, key_of(there, KeyError), key_of(here, namesake), key_of(here, KeyError, name="other")}) == 4


def test_a_group_deeper_than_the_stack_has_the_outcome_of_its_leaf_and_keeps_its_frames() -> None:
    try:
        raise nested(2000, OSError("the leaf"))
    except BaseException as error:
        outcome = outcome_of_error(error, TASK, is_stopped=False, saw_cancellation=False)
    assert isinstance(outcome, Raised)
    assert outcome.is_final
    assert "test_outcomes.py" in outcome.failure.traceback


async def test_l2_a_transition_that_cannot_be_made_is_a_failure_too_and_the_slot_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    finish, asked = executor_module.lifecycle.finish, list[object]()

    def broken(active: Any, outcome: Any, *, jitter: float) -> Any:
        asked.append(outcome)
        if len(asked) == 1:
            raise RuntimeError("no such move")
        return finish(active, outcome, jitter=jitter)

    bench = Bench(TASK)
    monkeypatch.setattr(executor_module.lifecycle, "finish", broken)
    bench.executor.start(claim(TASK))
    await bench.until_ended()
    assert bench.executor.running == {}
    moved = bench.ended[0].transition
    assert moved is not None
    assert (moved.record, str(moved.error)) == (AttemptOutcome.FAILED, "RuntimeError: no such move")
