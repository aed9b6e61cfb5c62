"""Verbs on many jobs in batches that the caller makes, such as the command line with its progress bar."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from uuid import UUID

from msgspec import structs

from holdfast._core.job import State
from holdfast._core.requests import Steer
from holdfast._core.text import json_text
from holdfast._engine.client.acting import acting, current, named
from holdfast._engine.client.client import ACTIONS
from holdfast._engine.operators.audit import Audit
from holdfast._engine.operators.operators import Jobs
from holdfast._engine.operators.where import Where, selector_of
from holdfast.sync import blocking


async def asteer_matching(jobs: Jobs, how: Steer, ids: Sequence[UUID], where: Where) -> dict[UUID, State]:
    """Apply the verb to those of the jobs that match when they are written; return the state each is in now."""
    client = jobs._connect()
    by = client.note(ACTIONS[how.verb], selector_of(where, None))
    return (await client.steer(how, ids, where.filter(len(ids)), by=by)).states


async def astates_of(jobs: Jobs, where: Where, limit: int | None) -> dict[UUID, State]:
    """Return the jobs that match, newest first, with the state each is in."""
    return await jobs._connect().states(where.filter(limit), limit)


def one_action(audit: Audit, target: Where | Sequence[UUID]) -> AbstractContextManager[None]:
    """Record all calls inside as one action on these jobs."""
    selector = json_text(selector_of(target, None) if isinstance(target, Where) else named(target))
    return acting(structs.replace(current(), selector=selector, operation=audit.new_operation()))


steer_matching = blocking(asteer_matching)
states_of = blocking(astates_of)
