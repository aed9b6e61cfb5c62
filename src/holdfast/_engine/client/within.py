"""Jobs written in the caller's own transaction: they exist if and only if it commits."""

from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.identity import enqueue_call_id
from holdfast._core.job import NewJob
from holdfast._core.new_flow import empty_gates
from holdfast._core.workflow import NewFlow
from holdfast._engine import store_defaults
from holdfast._engine.client.connections import Connections
from holdfast._engine.client.flow_calls import require_no_flow_conflict
from holdfast._engine.client.handle import Handle, handles_of
from holdfast._ports.store import Store
from holdfast.errors import ConfigurationError, Unsupported
from holdfast.sync import soon


def enqueue_within(
    connections: Connections, connection: object, jobs: Sequence[NewJob], read: Callable[[bytes], Any]
) -> list[Handle[Any]]:
    """Write all jobs in the transaction of ``connection``, in the caller's thread. Workers are woken after the commit.

    ``Unsupported`` if the store has no such transactions, or if the connection must be awaited.
    """
    answer = _write(connections, connection, jobs)
    if isinstance(answer, Coroutine):
        answer.close()
        raise _must_be_awaited(connection)
    return _handles(connections, connection, jobs, answer, read)


async def aenqueue_within(
    connections: Connections, connection: object, jobs: Sequence[NewJob], read: Callable[[bytes], Any]
) -> list[Handle[Any]]:
    """Write all jobs as ``enqueue_within`` does; a connection that is not awaited blocks the caller's loop for the write."""
    answer = _write(connections, connection, jobs)
    return _handles(connections, connection, jobs, await answer if isinstance(answer, Coroutine) else answer, read)


def enqueue_flow_within(connections: Connections, connection: object, new: NewFlow) -> EnqueueAnswer:
    """Write a workflow in the transaction of ``connection``, as ``enqueue_within`` writes jobs."""
    answer = _write_flow(connections, connection, new)
    if isinstance(answer, Coroutine):
        answer.close()
        raise _must_be_awaited(connection)
    return _flow_written(connections, connection, new, answer)


async def aenqueue_flow_within(connections: Connections, connection: object, new: NewFlow) -> EnqueueAnswer:
    """Write a workflow as ``enqueue_flow_within`` does; a connection that is not awaited blocks the caller's loop for the write."""
    answer = _write_flow(connections, connection, new)
    return _flow_written(connections, connection, new, await answer if isinstance(answer, Coroutine) else answer)


def _write_flow(connections: Connections, connection: object, new: NewFlow) -> EnqueueAnswer | Coroutine[Any, Any, EnqueueAnswer]:
    _require_transactions(connections.store)
    if empty := empty_gates(new):
        problem = (
            f"within: {', '.join(empty)} has no nodes, and so ends in the write that stores it: enqueue it after your commit"
        )
        raise ConfigurationError([f"workflow {new.root.job.task}: {problem}"])
    call = enqueue_call_id(new.root.job.id, connections.chance.uuid4())
    return store_defaults.enqueue_flow_within(connections.store, connection, call, new)


def _flow_written(connections: Connections, connection: object, new: NewFlow, answer: EnqueueAnswer) -> EnqueueAnswer:
    require_no_flow_conflict(new, answer)
    if not answer.duplicates:
        connections.after_commit(connection, lambda: soon(lambda: _announce_flow(connections, new)))
    return answer


def _must_be_awaited(connection: object) -> Unsupported:
    kind = type(connection)
    return Unsupported(f"within: a {kind.__module__}.{kind.__qualname__} is awaited: use `await … .aenqueue(…)`")


def _require_transactions(store: Store) -> None:
    if not store.capabilities.caller_transaction:
        name = store.capabilities.name
        raise Unsupported(f"within: the {name} store has no transactions of the caller's; enqueue after your own commit")


def _write(
    connections: Connections, connection: object, jobs: Sequence[NewJob]
) -> EnqueueAnswer | Coroutine[Any, Any, EnqueueAnswer]:
    store = connections.store
    _require_transactions(store)
    call = connections.chance.uuid4()
    return store_defaults.enqueue_within(store, connection, enqueue_call_id(jobs[0].id, call), jobs) if jobs else EnqueueAnswer()


def _handles(
    connections: Connections,
    connection: object,
    jobs: Sequence[NewJob],
    answer: EnqueueAnswer,
    read: Callable[[bytes], Any],
) -> list[Handle[Any]]:
    handles = handles_of(jobs, answer, connections.client, read)
    written = [job for job in jobs if job.id not in answer.duplicates]
    if written:
        connections.after_commit(connection, lambda: soon(lambda: _announce(connections, written)))
    return handles


async def _announce(connections: Connections, written: Sequence[NewJob]) -> None:
    with suppress(Exception):  # the jobs are committed, and a hint may be lost
        await connections.client().announce(written)


async def _announce_flow(connections: Connections, new: NewFlow) -> None:
    with suppress(Exception):  # the workflow is committed, and a hint may be lost
        await connections.client().announce_flow(new)
