"""Workflows: the list, one with its picture and its nodes, and the picture alone."""

from holdfast._core.job import FINISHED
from holdfast._core.view import JobView
from holdfast._core.workflow_view import NodeView, WorkflowView
from holdfast.dashboard.actions import buttons
from holdfast.dashboard.views.page import Asked, Cell, Glyph, Page, columns, figure, job, state, table, text, when
from holdfast.dashboard.words import moment, short, took
from holdfast.http.permissions import Action

PAGE = 50
MOST_NODES = 500
"""The most nodes of one workflow that a page lists."""


async def workflows(asked: Asked) -> Page:
    """Return the newest workflows, or those of the page that the cursor names."""
    found = await asked.app.workflows.alist(limit=PAGE, cursor=asked.query.get("cursor"))
    older = f"/workflows?cursor={found[-1].id}" if len(found) == PAGE else ""
    heads = columns("state", "workflow", "queue", "why", "took#", "enqueued#")
    rows = [_row(each, asked) for each in found]
    return table("Workflows", "/workflows", heads, rows, older=older, nothing="There is no workflow.")


def _row(root: JobView, asked: Asked) -> list[Cell]:
    return [
        state(root.state),
        job(root, "/workflows"),
        text(root.queue),
        text(root.reason, style="m grow"),
        figure(took(root.created_at, root.finished_at or asked.now)),
        when(moment(root.created_at, asked.now)),
    ]


async def workflow(asked: Asked) -> Page:
    """Return a workflow: its picture, and its nodes as a table."""
    found = await asked.app.workflows.aget(asked.id)
    paused = moment(found.paused_at, asked.now)
    values = {
        "id": found.id,
        "short": short(found.id),
        "state": Glyph.of(found.state),
        "paused": "" if paused is None else paused.text,
        "summary": summary(found),
        "buttons": buttons("workflow", str(found.id), asked.may, Action.CANCEL, Action.RECOVER)
        if found.state not in FINISHED
        else [],
        "columns": columns("state", "node", "task", "after", "why", "tries#", "took#"),
        "rows": [_node(each, asked) for each in found.nodes[:MOST_NODES]],
        "more": max(len(found.nodes) - MOST_NODES, 0),
    }
    return Page(template="workflow.html", title=found.name, section="/workflows", values=values)


def summary(found: WorkflowView) -> str:
    """Return how many of the nodes have ended, and why the workflow ended."""
    ended = sum(node.state in FINISHED for node in found.nodes)
    why = "" if found.reason is None else f" It ended for the reason {found.reason}."
    return f"{ended} of {len(found.nodes)} nodes have ended.{why}"


def _node(node: NodeView, asked: Asked) -> list[Cell]:
    why = node.reason or ("paused" if node.is_paused else f"waits for the signal {node.awaits}" if node.awaits else "")
    return [
        state(node.state),
        text(node.name, link=f"/jobs/{node.job}"),
        text(node.task),
        text(", ".join(node.after), style="wide"),
        text(why, style="m"),
        figure(node.attempt),
        figure(took(node.started_at, node.finished_at or asked.now)),
    ]


async def picture(asked: Asked) -> str:
    """Return the picture of a workflow as an SVG document, in which every text is escaped."""
    return await asked.app.workflows.apicture(asked.id, "svg")
