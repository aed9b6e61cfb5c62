"""A workflow of layers whose nodes each take the results of three nodes before them; see ``jobs_app`` for how it is set up."""

import asyncio

from holdfast import Backoff, Job, Node, Workflow
from tests.e2e.jobs_app import app, journal, recorded
from tests.e2e.marks import Mark, first, following, parents_of

__all__ = ["app"]

node = app.task(max_crashes=1000, max_attempts=1, backoff=Backoff.fixed("0.05s"))


@node
async def begin(job: Job, place: int, seconds: float) -> Mark:
    """Work for a while."""
    await _work(job, seconds)
    return first(place)


@node
async def go_on(job: Job, place: int, width: int, seconds: float, left: Mark, middle: Mark, right: Mark) -> Mark:
    """Work for a while; fail if an input is not the result of the parent that it was bound to."""
    await _work(job, seconds)
    parents = [left, middle, right]
    assert all(isinstance(each, Mark) for each in parents)
    assert [each.place for each in parents] == parents_of(place, width)
    return following(place, parents)


@node
async def collect(job: Job, marks: list[Mark]) -> list[int]:
    """Return the numbers of the last layer."""
    await _work(job, 0.0)
    return [each.number for each in marks]


@app.workflow(max_nodes=10_000)
def layers(w: Workflow, depth: int, width: int, seconds: float) -> Node[list[int]]:
    """Build layers of this width, and a node that collects the results of the last one."""
    nodes = [w.add(begin.bind(place=place, seconds=seconds)) for place in range(width)]
    for _ in range(depth - 1):
        chosen = [[nodes[each].output for each in parents_of(place, width)] for place in range(width)]
        nodes = [
            w.add(go_on.bind(place=place, width=width, seconds=seconds, left=left, middle=middle, right=right))
            for place, (left, middle, right) in enumerate(chosen)
        ]
    return w.add(collect.bind(marks=[each.output for each in nodes]))


async def _work(job: Job, seconds: float) -> None:
    journal.write(job, "start")
    with recorded(job):
        await asyncio.sleep(seconds)
    journal.write(job, "end")
