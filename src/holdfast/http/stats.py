"""The call that counts jobs."""

from msgspec import Struct

from holdfast._engine.client.client import Client
from holdfast.http.identity import Role
from holdfast.http.operation import Call, Operation, Reply

Counts = dict[str, int]


class Stats(Struct, frozen=True):
    """Jobs by state, of all, of each queue and of each task; and the live workers. Finished jobs count until their retention passes."""

    jobs: Counts
    queues: dict[str, Counts]
    tasks: dict[str, Counts]
    workers: int


def stats(client: Client) -> Operation:
    """Describe the call that counts jobs."""

    async def run(_: Call) -> Reply:
        every, queues, tasks = await client.counts(None), await client.counts("queue"), await client.counts("task")
        alive = {worker.worker for worker in await client.workers() if worker.overdue < 0 and worker.tasks}
        return Reply(Stats(every[""], queues, tasks, len(alive)))

    return Operation(
        method="GET",
        path="/stats",
        summary="Count jobs by state, queue and task.",
        roles=frozenset((Role.PRODUCER, Role.WORKER, Role.VIEWER, Role.OPERATOR)),
        answers={200: Stats},
        run=run,
    )
