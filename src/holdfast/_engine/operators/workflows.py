"""What people and programs do with workflows: see them, draw them, pause, cancel and repair them, run what failed again."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdfast._core.job import State
from holdfast._core.view import JobView
from holdfast._core.workflow import Revived
from holdfast._core.workflow_view import WorkflowView
from holdfast._engine.client.client import Client
from holdfast._engine.operators.operators import Id, Where, id_of
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
        return await self._handle(workflow).acancel()

    async def aretry(self, workflow: Id, from_: str | None = None, *, fresh: bool = False) -> State:
        """Run again what did not complete, as ``handle.retry`` does; return the workflow's state."""
        return await self._handle(workflow).aretry(from_, fresh=fresh)

    async def arecover_stuck(self, workflow: Id | None = None, *, dry_run: bool = False) -> Revived:
        """Repair now what supervisors repair gradually, in all unfinished workflows or in one; return what was wrong.

        Intact workflows do not change; damage comes from hand-made SQL or from a restored backup. Workflows past their deadline end.
        Paused ones are left alone, because they wait for an operator. ``dry_run``: only return what would be done.

        >>> app.workflows.recover_stuck(dry_run=True).repairs  # doctest: +SKIP
        ()
        """
        return await self._connect().revive(None if workflow is None else id_of(workflow), dry_run=dry_run)

    get = blocking(aget)
    list = blocking(alist)
    picture = blocking(apicture)
    pause = blocking(apause)
    resume = blocking(aresume)
    cancel = blocking(acancel)
    retry = blocking(aretry)
    recover_stuck = blocking(arecover_stuck)

    def _handle(self, workflow: Id) -> WorkflowHandle[Any]:
        return WorkflowHandle(id_of(workflow), "", self._connect)
