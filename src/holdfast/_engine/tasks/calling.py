"""``job.call`` and ``job.gather``: a handler waits for children, without a slot, and gets what they returned."""

import asyncio
from collections.abc import Coroutine, Sequence
from concurrent import futures
from typing import Any, Literal, TypeVar, overload

from holdfast._core.job import Claim, Failed, NoResult
from holdfast._core.member import Member
from holdfast._core.steps import CALL, GATHER
from holdfast._core.workflow import NewMember
from holdfast._engine.tasks.child_spec import BoundChild, require_member
from holdfast._engine.tasks.inputs import InputReads
from holdfast._engine.tasks.job_context import ProgressSink
from holdfast.errors import ConfigurationError, JobCancelled, JobFailed

Result = TypeVar("Result")


class ChildCalls(InputReads):
    """What both kinds of jobs share to wait for children. The children of a call are known by the step that remembers their ids."""

    async def _call(self, child: BoundChild[Any]) -> Any:
        (outcome,) = await self._outcomes(f"{CALL}{child.name}", [child])
        return _value(child, outcome)

    async def _gather(self, children: Sequence[BoundChild[Any]], *, return_exceptions: bool) -> list[Any]:
        outcomes = await self._outcomes(GATHER, children) if children else []
        values = [_value_or_error(*each) for each in zip(children, outcomes, strict=True)]
        if not return_exceptions:
            for each in values:
                if isinstance(each, JobFailed | JobCancelled):
                    raise each
        return values

    async def _outcomes(self, name: str, children: Sequence[BoundChild[Any]]) -> list[bytes | Failed]:
        members = [self._member(each, place, is_one=name != GATHER) for place, each in enumerate(children)]
        log, job = self._step_log(), self._claim.job
        await self._reporter.children.outcomes(
            job, ()
        )  # a store that cannot keep children refuses them here, not once they are sent
        ids = await log.children(name, members)
        if len(ids) != len(children):
            raise ConfigurationError(
                [f"job.gather: {len(children)} children, and {len(ids)} in an earlier attempt: keep their number"]
            )
        found = await self._reporter.children.outcomes(job, ids)
        if len(found) < len(set(ids)):
            raise log.wait_for_children()
        return [found[each] for each in ids]

    def _member(self, child: BoundChild[Any], place: int, *, is_one: bool) -> NewMember:
        with child.around(self._new_child(child)) as (job,):
            require_member(child, job)
            return NewMember(job, Member(flow=self.id, node=child.name if is_one else f"{child.name}[{place}]"))


class AsyncCalls(ChildCalls):
    """The calls of an ``async def`` handler."""

    @overload
    async def call(self, child: BoundChild[Coroutine[Any, Any, Result]], /) -> Result: ...
    @overload
    async def call(self, child: BoundChild[Result], /) -> Result: ...
    async def call(self, child: BoundChild[Any], /) -> Any:
        """Run another task, or a workflow, as a child of this job, and return what it returned, with the type that it is annotated with.

        While the child waits or runs, this job is blocked and its slot is free; no attempt is spent. Then the handler is called again from
        its top, and this returns at once, as in all later attempts. So do what must not be repeated in steps. The child is kept as long as
        the workflow that both belong to; a plain job becomes the root of one. Raises ``JobFailed`` or ``JobCancelled`` if the child has not
        completed, and ``JobLost``.

        >>> receipt = await job.call(publish.bind(ref="main"))  # doctest: +SKIP
        """
        return await self._call(child)

    @overload
    async def gather(
        self, children: Sequence[BoundChild[Coroutine[Any, Any, Result]]], /, *, return_exceptions: Literal[False] = False
    ) -> list[Result]: ...
    @overload
    async def gather(
        self, children: Sequence[BoundChild[Result]], /, *, return_exceptions: Literal[False] = False
    ) -> list[Result]: ...
    @overload
    async def gather(
        self, children: Sequence[BoundChild[Coroutine[Any, Any, Result]]], /, *, return_exceptions: bool
    ) -> list[Result | JobFailed | JobCancelled]: ...
    @overload
    async def gather(
        self, children: Sequence[BoundChild[Result]], /, *, return_exceptions: bool
    ) -> list[Result | JobFailed | JobCancelled]: ...
    async def gather(self, children: Sequence[BoundChild[Any]], /, *, return_exceptions: bool = False) -> list[Any]:
        """Run several children at once, and return what they returned, in their order; see ``call``.

        It waits for all of them. If one has not completed, it raises the error of the first such child; with ``return_exceptions`` the
        errors stand in the list.

        >>> reports = await job.gather([test.bind(suite=each) for each in suites])  # doctest: +SKIP
        """
        return await self._gather(children, return_exceptions=return_exceptions)


class BlockingCalls(ChildCalls):
    """The calls of a ``def`` handler, which runs in a thread."""

    def __init__(self, claim: Claim, reporter: ProgressSink, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(claim, reporter)
        self._loop = loop

    @overload
    def call(self, child: BoundChild[Coroutine[Any, Any, Result]], /) -> Result: ...
    @overload
    def call(self, child: BoundChild[Result], /) -> Result: ...
    def call(self, child: BoundChild[Any], /) -> Any:
        """Run another task, or a workflow, as a child of this job, and return what it returned; see ``Job.call``.

        >>> receipt = job.call(publish.bind(ref="main"))  # doctest: +SKIP
        """
        return self._in_loop(self._call(child))

    @overload
    def gather(
        self, children: Sequence[BoundChild[Coroutine[Any, Any, Result]]], /, *, return_exceptions: Literal[False] = False
    ) -> list[Result]: ...
    @overload
    def gather(self, children: Sequence[BoundChild[Result]], /, *, return_exceptions: Literal[False] = False) -> list[Result]: ...
    @overload
    def gather(
        self, children: Sequence[BoundChild[Coroutine[Any, Any, Result]]], /, *, return_exceptions: bool
    ) -> list[Result | JobFailed | JobCancelled]: ...
    @overload
    def gather(
        self, children: Sequence[BoundChild[Result]], /, *, return_exceptions: bool
    ) -> list[Result | JobFailed | JobCancelled]: ...
    def gather(self, children: Sequence[BoundChild[Any]], /, *, return_exceptions: bool = False) -> list[Any]:
        """Run several children at once, and return what they returned, in their order; see ``Job.gather``.

        >>> reports = job.gather([test.bind(suite=each) for each in suites])  # doctest: +SKIP
        """
        return self._in_loop(self._gather(children, return_exceptions=return_exceptions))

    def _in_loop(self, coroutine: Coroutine[None, None, Result]) -> Result:
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()
        except futures.CancelledError:
            raise asyncio.CancelledError(f"job {self.id} is to stop") from None


def _value(child: BoundChild[Any], outcome: bytes | Failed) -> Any:
    value = _value_or_error(child, outcome)
    if isinstance(value, JobFailed | JobCancelled):
        raise value
    return value


def _value_or_error(child: BoundChild[Any], outcome: bytes | Failed) -> Any:
    if isinstance(outcome, bytes):
        return child.read(outcome)
    if outcome.reason is NoResult.TASK_CANCELLED:
        return JobCancelled(f"{child.name} was cancelled")
    return JobFailed(f"{child.name}: {outcome.reason}", outcome.error, None)
