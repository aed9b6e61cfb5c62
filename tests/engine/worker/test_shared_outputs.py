"""Jobs that are claimed together read the results that they take in one call."""

import asyncio
from collections.abc import Mapping, Sequence
from uuid import UUID

import pytest

from holdfast._core.workflow import Output
from holdfast._engine.client.outputs import PAGE
from holdfast._engine.service import yield_to_loop
from holdfast._engine.worker.shared_outputs import SharedOutputs
from holdfast.errors import StoreUnavailable

ONE, TWO, UNFINISHED = (UUID(int=number) for number in (1, 2, 3))


class Outcomes:
    """The outcomes of jobs: each is the number of the call that read it. Calls are answered once ``may_answer`` is set."""

    def __init__(self, error: Exception | None = None) -> None:
        self.calls: list[list[UUID]] = []
        self.is_called, self.may_answer, self._error = asyncio.Event(), asyncio.Event(), error

    async def read(self, ids: Sequence[UUID]) -> Mapping[UUID, Output]:
        self.calls.append([*ids])
        self.is_called.set()
        answer: Output = str(len(self.calls)).encode()
        await self.may_answer.wait()
        if self._error is not None:
            raise self._error
        return {job: answer for job in ids if job != UNFINISHED}


def test_jobs_that_ask_in_one_turn_share_one_call_and_get_their_own_outcomes() -> None:
    async def story() -> None:
        outcomes = Outcomes()
        outcomes.may_answer.set()
        shared = SharedOutputs(outcomes.read)
        answers = await asyncio.gather(shared.read([ONE, TWO]), shared.read([TWO]), shared.read([UNFINISHED]))
        assert [*answers] == [{ONE: b"1", TWO: b"1"}, {TWO: b"1"}, {}]
        assert outcomes.calls == [[ONE, TWO, UNFINISHED]]

    asyncio.run(story())


def test_jobs_that_begin_one_in_each_turn_of_the_loop_share_one_call() -> None:
    async def story() -> None:
        outcomes = Outcomes()
        outcomes.may_answer.set()
        shared = SharedOutputs(outcomes.read)
        reads = []
        for job in (ONE, TWO, ONE):
            reads.append(asyncio.create_task(shared.read([job])))
            await yield_to_loop()
        assert [await read for read in reads] == [{ONE: b"1"}, {TWO: b"1"}, {ONE: b"1"}]
        assert outcomes.calls == [[ONE, TWO]]

    asyncio.run(story())


def test_s21_a_job_that_asks_after_a_call_was_sent_gets_the_answer_of_a_later_one() -> None:
    async def story() -> None:
        outcomes = Outcomes()
        shared = SharedOutputs(outcomes.read)
        first = asyncio.create_task(shared.read([ONE]))
        await outcomes.is_called.wait()
        second = asyncio.create_task(shared.read([ONE]))
        outcomes.may_answer.set()
        assert (await first, await second) == ({ONE: b"1"}, {ONE: b"2"})

    asyncio.run(story())


def test_a_call_reads_no_more_outcomes_than_a_page_and_those_of_one_job() -> None:
    async def story() -> None:
        outcomes = Outcomes()
        outcomes.may_answer.set()
        shared = SharedOutputs(outcomes.read)
        page = [UUID(int=number) for number in range(10, 10 + PAGE)]
        first, second = await asyncio.gather(shared.read(page), shared.read([ONE]))
        assert (set(first), set(second)) == (set(page), {ONE})
        assert outcomes.calls == [page, [ONE]]

    asyncio.run(story())


def test_a_job_that_is_stopped_does_not_end_the_call_of_the_others() -> None:
    async def story() -> None:
        outcomes = Outcomes()
        shared = SharedOutputs(outcomes.read)
        stopped, other = asyncio.create_task(shared.read([ONE])), asyncio.create_task(shared.read([TWO]))
        await outcomes.is_called.wait()
        stopped.cancel()
        outcomes.may_answer.set()
        assert await other == {TWO: b"1"}
        assert stopped.cancelled()

    asyncio.run(story())


def test_an_unreachable_store_is_reported_to_each_job_and_not_to_the_event_loop() -> None:
    async def story() -> None:
        reported: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        outcomes = Outcomes(StoreUnavailable("outputs: no connection"))
        shared = SharedOutputs(outcomes.read)
        stopped, other = asyncio.create_task(shared.read([ONE])), asyncio.create_task(shared.read([TWO]))
        await outcomes.is_called.wait()
        stopped.cancel()
        outcomes.may_answer.set()
        with pytest.raises(StoreUnavailable):
            await other
        assert not reported

    asyncio.run(story())
