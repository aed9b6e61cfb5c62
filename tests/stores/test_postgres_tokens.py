"""A handler's transaction begins and commits under the whole token of its job, and that of a hook also under its due time."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from holdfast._core.job import Token
from holdfast.stores.postgres import parameters as packing
from holdfast.testing.contracts.rescuing import ENDS_AT_ONCE, HOLDS, again, crashed
from holdfast.testing.contracts.scene import Scene, play, stale
from tests.stores.postgres_concurrent_sessions import Stage, rival
from tests.stores.postgres_databases import Home

Asked = tuple[UUID, Token]


def others(at: Scene, job: UUID, token: Token) -> Iterator[Asked]:
    """Yield job ids and tokens that differ from these in one part each."""
    yield at.chance.uuid7(), token
    yield job, Token(at.chance.uuid4(), token.number)
    yield job, stale(token, 1)
    yield job, stale(token, -1)


async def is_ours(at: Scene, name: str, asked: Asked, *more: Any) -> bool:
    """Return whether the statement finds the job under this token."""
    job, token = asked
    ((answer, *_),) = await at.store._fetch(name, job, token.claim, token.number, *more)  # type: ignore[attr-defined]
    assert isinstance(answer, bool)
    return answer


def test_s3_a_transaction_asks_for_the_whole_token(home: Home) -> None:
    async def act(at: Scene) -> None:
        active, _ = await at.running(), await at.running()
        for name, more in (("transaction_begins", ("1000", "mark")), ("transaction_ends", ())):
            for asked in others(at, active.id, active.token):
                assert not await is_ours(at, name, asked, *more)
            assert await is_ours(at, name, (active.id, active.token), *more)

    play(Stage(home), act)


async def owing(at: Scene) -> list[tuple[UUID, Token, datetime]]:
    """Return two jobs in each table whose hook is owed."""
    found = []
    for _ in range(2):
        running = await again(at, await crashed(at))
        for job in (running.id, (await crashed(at, HOLDS)).id, (await crashed(at, ENDS_AT_ONCE)).id):
            row = await at.row(job)
            assert row.hook_due_at is not None
            found.append((job, row.token, row.hook_due_at))
        at.advance(1.0)
    return found


def test_s3_a_hook_asks_for_the_whole_token_and_its_due_time(home: Home) -> None:
    async def act(at: Scene) -> None:
        for job, token, due_at in await owing(at):
            begins, ends = ("hook_begins", "1000", "mark"), ("hook_ends",)
            for name, *more in (begins, ends):
                for asked in others(at, job, token):
                    assert not await is_ours(at, name, asked, *more, due_at)
                for wrong in (due_at - timedelta(seconds=1), due_at + timedelta(seconds=1)):
                    assert not await is_ours(at, name, (job, token), *more, wrong)
                assert (await at.row(job)).hook_due_at == due_at
                assert await is_ours(at, name, (job, token), *more, due_at)
            assert (await at.row(job)).hook_due_at is None
            assert not await is_ours(at, "hook_begins", (job, token), "1000", "mark", due_at)

    play(Stage(home), act)


def test_s3_a_hook_of_a_pending_job_is_refused_to_a_claim(home: Home) -> None:
    async def act(at: Scene) -> None:
        row = await crashed(at, HOLDS)
        assert row.token.claim is None
        claimed = (row.id, Token(at.chance.uuid4(), row.token.number))
        assert not await is_ours(at, "hook_begins", claimed, "1000", "mark", row.hook_due_at)
        assert not await is_ours(at, "hook_ends", claimed, row.hook_due_at)

    play(Stage(home), act)


@pytest.mark.parametrize("name", ["transaction_begins", "hook_begins", "enqueue", "enqueue_plain"])
def test_s6_a_callers_commit_is_made_durable_and_never_less_than_the_caller_wants(home: Home, name: str) -> None:
    async def act(at: Scene) -> None:
        token, key = (at.chance.uuid7(), at.chance.uuid4(), 1), "k" if name == "enqueue" else None
        for theirs in ("off", "local", "remote_write", "on", "remote_apply"):
            values: tuple[Any, ...] = (*token, "1000", "mark") if "begins" in name else ()
            values += (at.now,) if name == "hook_begins" else ()
            for is_durable in (True, False)[: 1 if values else 2]:
                job = at.new(key=key and f"{theirs} {is_durable}")
                asked = values or packing.enqueue(at.chance.uuid4(), [job], is_durable=is_durable)[1:]
                async with rival(home) as caller:
                    await caller.link.execute(f"SET LOCAL synchronous_commit = '{theirs}'")
                    await caller._fetch(name, *asked)
                    ours = await caller.link.fetchval("SELECT current_setting('synchronous_commit')")
                is_raised = is_durable and theirs in ("off", "local", "remote_write")
                assert ours == ("on" if is_raised else theirs)

    play(Stage(home), act)
