"""What an enqueue of a workflow returns: a job by its id, and what can be done to its whole graph."""

from collections.abc import Callable
from typing import Literal
from uuid import UUID

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.durations import Duration, seconds
from holdfast._core.job import PLACE_OF, Json, NewJob, Place, State
from holdfast._core.member import OnFailure
from holdfast._core.payload import reader_of
from holdfast._core.workflow import FlowVerb, SteerFlow
from holdfast._core.workflow_view import NodeView, WorkflowView, maps_that_ran
from holdfast._engine.client.client import Client
from holdfast._engine.client.handle import Handle, Result
from holdfast.errors import ConfigurationError
from holdfast.sync import blocking

ResumeFailed = Literal["fail", "retry", "continue"]


class WorkflowHandle(Handle[Result]):
    """One workflow; ``created`` is false if an earlier one with the same unique key stands for it.

    >>> handle = release.enqueue(ref="main")  # doctest: +SKIP
    >>> [node.name for node in handle.nodes() if node.state == "failed"]  # doctest: +SKIP
    ['sign']
    """

    __slots__ = ()

    @classmethod
    def of(
        cls, root: NewJob, answer: EnqueueAnswer, connect: Callable[[], Client], kind: object = None
    ) -> "WorkflowHandle[Result]":
        """Return the handle of a workflow that was written, or of the one that has its key; ``kind``: the type of its result."""
        duplicate = answer.duplicates.get(root.id)
        job = root.id if duplicate is None else duplicate.job
        return cls(job, root.queue, connect, created=duplicate is None, read=reader_of(kind, f"the result of {root.task}"))

    async def aresult(self, timeout: Duration | None = None) -> Result:
        """Wait for the end; return the result of the node that the workflow's function returned, ``None`` if it returned none.

        Raises ``JobFailed``, which names the nodes that did not complete, ``JobCancelled``, ``JobNotFound``, or ``TimeoutError`` after
        ``timeout``. A workflow may complete although that node did not, because its failure was accepted with ``on_failure="continue"`` or
        ``when="finished"``. There is no result of its type then, so this raises ``JobFailed`` with the reason and the error of the node.
        """
        result: Result = await self._connect().result(self.id, None if timeout is None else seconds(timeout), self._read)
        return result

    async def anodes(self) -> list[NodeView]:
        """Return its nodes as they are now, in the order in which they were added; ``JobNotFound`` once its retention has passed."""
        return list(WorkflowView.of(await self._connect().flow(self.id)).nodes)

    async def apause(self) -> State:
        """Start none of its nodes from now on; those that run go on. Return the workflow's state."""
        return await self._steer(SteerFlow(verb=FlowVerb.PAUSE))

    async def aresume(self, failed: ResumeFailed = "fail") -> State:
        """Let a paused workflow go on; return its state.

        ``failed``: what becomes of the failures that the pause held back. Their dependents fail, or run and get a ``Failed``
        (``"continue"``), or the failed nodes run again (``"retry"``).
        """
        return await self._steer(resumption(failed))

    async def acancel(self) -> State:
        """End all nodes that wait, and ask those that run to end; return the workflow's state, unchanged if it had finished."""
        await self._connect().flow(self.id)  # the same verb of a store ends any job
        return await super().acancel()

    async def aretry(self, from_: str | None = None, *, fresh: bool = False) -> State:
        """Run again what did not complete; completed nodes keep their results. Return the workflow's state.

        ``from_``: the name of a node that runs again with everything behind it, also if it completed; a nested workflow or a map stands for
        all of its nodes. It is refused if the list of a map that has run comes from there. ``fresh``: nodes forget their checkpoints and
        steps. ``UniqueConflict`` if another unfinished workflow has its unique key.
        """
        if from_ is None:
            await self._connect().flow(self.id)  # the same verb of a store runs any job again
            return await super().aretry(fresh=fresh)
        if fresh:
            raise ConfigurationError(["retry: use fresh=True or from_=…, not both"])
        node = await self._job_of(from_)
        if maps := maps_that_ran(await self._connect().flow(self.id), node):
            names = ", ".join(map(repr, maps))
            problem = f"retry(from_={from_!r}): {names} ran over the old list, and would not run over the new one"
            raise ConfigurationError([f"{problem}: enqueue the workflow again, or retry from a node behind"])
        state = await self._steer(SteerFlow(verb=FlowVerb.RETRY, node=node))
        return state if PLACE_OF[state] is not Place.FINISHED else await super().aretry()  # which names who has its unique key

    async def asignal(self, name: str, value: Json = None, *, node: str | None = None) -> bool:
        """Send a signal to the nodes that wait for it now; return false if none does.

        ``node``: the name of the node that gets it, now or once it asks for it; false if that node has finished.

        >>> handle.signal("approved", {"by": "ada"})  # doctest: +SKIP
        True
        """
        client = self._connect()
        if node is not None:
            return await client.signal(await self._job_of(node), name, value)
        waiting = [each.job for each in await self.anodes() if each.awaits == name]
        return any([await client.signal(job, name, value) for job in waiting])

    def result(self, timeout: Duration | None = None) -> Result:
        """Wait in this thread for the workflow's end, and return its result; see ``aresult``."""
        return blocking(self.aresult)(timeout)

    def cancel(self) -> State:
        """End the workflow and all of its nodes from code without an event loop; see ``acancel``."""
        return blocking(self.acancel)()

    def retry(self, from_: str | None = None, *, fresh: bool = False) -> State:
        """Run again what did not complete, from code without an event loop; see ``aretry``."""
        return blocking(self.aretry)(from_, fresh=fresh)

    def signal(self, name: str, value: Json = None, *, node: str | None = None) -> bool:
        """Send a signal to the workflow from code without an event loop; see ``asignal``."""
        return blocking(self.asignal)(name, value, node=node)

    nodes = blocking(anodes)
    pause = blocking(apause)
    resume = blocking(aresume)

    async def _steer(self, how: SteerFlow) -> State:
        await self._connect().flow(self.id)
        return await self._connect().steer_flow(self.id, how)

    async def _job_of(self, node: str) -> UUID:
        for each in await self.anodes():
            if each.name == node:
                return each.job
        raise ConfigurationError(
            [f"workflow {self.id} has no node {node!r}: `holdfast workflows show {self.id}` lists its nodes"]
        )


def resumption(failed: object) -> SteerFlow:
    """Return the verb that resumes a workflow; ``ConfigurationError`` for an unknown choice."""
    if failed not in ("fail", "retry", "continue"):
        raise ConfigurationError([f"failed={failed!r}: use 'fail', 'retry' or 'continue'"])
    policy = OnFailure.CONTINUE if failed == "continue" else OnFailure.FAIL
    return SteerFlow(verb=FlowVerb.RESUME, failed=policy, is_retry=failed == "retry")
