"""The call that counts jobs."""

from msgspec import Struct

from holdfast._core.job import State
from holdfast._core.queue_counts import MOST_COUNTED, capped_in
from holdfast._engine.client.client import Client
from holdfast.http.identity import Role
from holdfast.http.operation import Call, Operation, Reply

Counts = dict[str, int]


class Stats(Struct, frozen=True):
    """Jobs by state, of all, of each queue and of each task; and the live workers. Finished jobs count until their retention passes.

    ``capped``: the states of whose finished jobs not all were counted: there may be more than 100,000 of them.
    """

    jobs: Counts
    queues: dict[str, Counts]
    tasks: dict[str, Counts]
    workers: int
    capped: tuple[State, ...] = ()


def stats(client: Client) -> Operation:
    """Describe the call that counts jobs."""

    async def run(_: Call) -> Reply:
        every, queues, tasks = [await client.counts(by, MOST_COUNTED) for by in (None, "queue", "task")]
        capped = capped_in(((State(state), number) for state, number in every[""].items()), MOST_COUNTED)
        alive = {worker.worker for worker in await client.workers() if worker.overdue < 0 and worker.tasks}
        return Reply(Stats(every[""], queues, tasks, len(alive), capped))

    return Operation(
        method="GET",
        path="/stats",
        summary="Count jobs by state, queue and task.",
        roles=frozenset((Role.PRODUCER, Role.WORKER, Role.VIEWER, Role.OPERATOR)),
        answers={200: Stats},
        run=run,
    )
