"""What people and programs do with workflows: see them, draw them, pause, cancel and repair them, run what failed again."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from holdfast._core.job import PLACE_OF, Place, State
from holdfast._core.requests import JobFilter, Steer, SteerVerb
from holdfast._core.view import JobView
from holdfast._core.workflow import Revived
from holdfast._core.workflow_view import WorkflowView
from holdfast._engine.client.client import ACTIONS, Client
from holdfast._engine.client.handle import id_of
from holdfast._engine.operators.operators import Id, Where
from holdfast._engine.workflows.handle import ResumeFailed, WorkflowHandle
from holdfast.sync import blocking

if TYPE_CHECKING:
    from holdfast._core.picture.drawing import Form


class Workflows:
    """``app.workflows``: workflows by the id that their enqueue returned."""

    def __init__(self, connect: Callable[[], Client]) -> None:
        self._connect = connect

    async def aget(self, workflow: Id) -> WorkflowView:
        """Return a workflow with all its nodes, in one snapshot; ``JobNotFound``.

        >>> [node.name for node in app.workflows.get(handle.id).nodes if node.state == "running"]  # doctest: +SKIP
        ['test-3', 'test-7']
        """
        return WorkflowView.of(await self._connect().flow(id_of(workflow)))

    async def alist(
        self,
        *,
        name: str | None = None,
        state: State | str | None = None,
        queue: str | None = None,
        key: str | None = None,
        tag: str | None = None,
        limit: int = 100,
        cursor: Id | None = None,
    ) -> list[JobView]:
        """Return matching workflows, newest first: their own jobs. Unfinished ones are ``blocked``, because they wait for their nodes.

        ``cursor``: the id of the last one of the page before.
        """
        where = Where(state=state, task=name, queue=queue, key=key, tag=tag)
        which = where.filter(limit, before=None if cursor is None else id_of(cursor))
        return [JobView.of(record) for record in await self._connect().roots(which)]

    async def apicture(self, workflow: Id, form: "Form" = "text") -> str:
        """Draw a workflow: as text for a terminal, as an SVG document, or as Mermaid's text for a page that draws it."""
        from holdfast._core.picture.drawing import draw  # noqa: PLC0415 - workers draw nothing, and it would take 1 MB of each

        return draw(await self.aget(workflow), form, self._connect().now())

    async def apause(self, workflow: Id) -> State:
        """Start none of its nodes from now on; those that run go on. Return the workflow's state."""
        return await self._handle(workflow).apause()

    async def aresume(self, workflow: Id, failed: ResumeFailed = "fail") -> State:
        """Let a paused workflow go on, as ``handle.resume`` does; return its state."""
        return await self._handle(workflow).aresume(failed)

    async def acancel(self, workflow: Id) -> State:
        """End all nodes that wait, and ask those that run to end; return the workflow's state."""
        handle = self._handle(workflow)
        return await self._recorded(handle.id, Steer(SteerVerb.CANCEL)) or await handle.acancel()

    async def aretry(self, workflow: Id, from_: str | None = None, *, fresh: bool = False) -> State:
        """Run again what did not complete, as ``handle.retry`` does; return the workflow's state."""
        handle = self._handle(workflow)
        state = await self._recorded(handle.id, Steer(SteerVerb.REOPEN, is_fresh=fresh)) if from_ is None else None
        if state is None or PLACE_OF[state] is Place.FINISHED:
            return await handle.aretry(from_, fresh=fresh)  # which names who has its unique key
        return state

    async def arecover_stuck(self, workflow: Id | None = None, *, dry_run: bool = False) -> Revived:
        """Repair now what supervisors repair gradually, in all unfinished workflows or in one; return what was wrong.

        Intact workflows do not change; damage comes from hand-made SQL or from a restored backup. Workflows past their deadline end.
        Paused ones are left alone, because they wait for an operator. ``dry_run``: only return what would be done.

        >>> app.workflows.recover_stuck(dry_run=True).repairs  # doctest: +SKIP
        ()
        """
        flow, client = None if workflow is None else id_of(workflow), self._connect()
        found = await client.revive(flow, dry_run=dry_run)
        if not dry_run:
            target = {"all": True} if flow is None else {"workflow": flow}
            await client.record("workflow.recover", target, len(found.repairs) + len(found.overdue))
        return found

    get = blocking(aget)
    list = blocking(alist)
    picture = blocking(apicture)
    pause = blocking(apause)
    resume = blocking(aresume)
    cancel = blocking(acancel)
    retry = blocking(aretry)
    recover_stuck = blocking(arecover_stuck)

    async def _recorded(self, flow: UUID, how: Steer) -> State | None:
        """Apply the verb and record it; return the workflow's state, or ``None`` if the store records no actions: then nothing is done."""
        client = self._connect()
        by = client.note(f"workflow.{ACTIONS[how.verb]}", {"workflow": flow})
        if by is None:
            return None
        await client.flow(flow)  # the same verb of a store is for any job
        return (await client.steer(how, [flow], JobFilter(), by=by, is_by_id=True)).states.get(flow)

    def _handle(self, workflow: Id) -> WorkflowHandle[Any]:
        return WorkflowHandle(id_of(workflow), "", self._connect)
