"""A worker starts runner processes when it needs them, uses them again and ends them; a crash costs only their own job."""

import asyncio
from itertools import pairwise
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.job import AttemptOutcome, Failure, NewJob, State
from holdfast._core.lifecycle import Precondition, Transition, finish
from holdfast._core.member import Member
from holdfast._core.outcome import Done, Raised, Snooze
from holdfast._core.policy import Policy
from holdfast._core.requests import ClaimRequest
from holdfast._core.steps import Signal, SignalTaken, StepRecord
from holdfast._core.workflow import Edge, NewFlow, NewMember
from holdfast._engine.runners import messages
from holdfast._engine.runners.options import Runners
from holdfast._engine.runners.running import Stop
from holdfast._engine.tasks.registry import RunnerKind
from holdfast._ports.host import Exit
from tests.engine.runners_support import DONE, GRACE, MARGIN, PAUSE, STACKS, FakeChild, RunnerBench, processed
from tests.engine.support import JOB, LEASE, claim, turns, until

OTHER_JOB = UUID(int=78)
STEP = StepRecord(name="charge", nth=1, place=0, is_sequential=True, result=b"1")


def moved_in(bench: RunnerBench, number: int = 0) -> Transition:
    moved = bench.ended[number].transition
    assert moved is not None
    return moved


@pytest.mark.virtual_time
async def test_a_result_comes_back_and_the_next_job_gets_the_same_runner() -> None:
    task = processed()
    bench = RunnerBench(task)
    bench.executor.start(claim(task, b'{"n": 1}'))
    child = await bench.child()
    child.say(messages.Ready())
    run = await child.next(messages.Run)
    assert run.claim == claim(task, b'{"n": 1}')
    child.say(messages.RunStarted(), DONE)
    await bench.until_ended()
    assert (moved_in(bench).to, moved_in(bench).result) == (State.COMPLETED, b'"done"')
    bench.executor.start(claim(task, job=OTHER_JOB))
    await child.next(messages.Run)
    child.say(messages.RunStarted(), DONE)
    await bench.until_ended(2)
    assert moved_in(bench, 1).to is State.COMPLETED
    assert len(bench.host.children) == 1


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("outcome", "to", "failures"),
    [(Raised(Failure("ValueError", "no")), State.AVAILABLE, 1), (Snooze("5s"), State.AVAILABLE, 0)],
)
async def test_an_exception_in_a_runner_has_the_outcome_of_an_exception_in_the_worker(
    outcome: Raised | Snooze, to: State, failures: int
) -> None:
    task = processed()
    bench = RunnerBench(task)
    bench.executor.start(claim(task))
    child = await bench.begun_child()
    child.say(messages.RunEnded(messages.OutcomeData.of(outcome)))
    await bench.until_ended()
    assert (moved_in(bench).to, moved_in(bench).failures) == (to, failures)


@pytest.mark.virtual_time
async def test_two_jobs_at_once_have_two_runners_and_there_is_no_third() -> None:
    task = processed()
    bench = RunnerBench(task, size=2)
    bench.executor.start(claim(task))
    assert bench.pool.free(bench.executor.count(RunnerKind.PROCESS)) == 1
    bench.executor.start(claim(task, job=OTHER_JOB))
    assert bench.pool.free(bench.executor.count(RunnerKind.PROCESS)) == 0
    for number in range(2):
        await bench.complete(number)
    await bench.until_ended(2)
    assert bench.pool.free(bench.executor.count(RunnerKind.PROCESS)) == 2


@pytest.mark.virtual_time
@pytest.mark.parametrize("exit", [Exit(signal="SIGSEGV"), Exit(3), Exit(signal="SIGKILL", is_out_of_memory=True)])
async def test_s9_a_runner_that_dies_by_itself_costs_its_own_job_a_crash_and_no_other(exit: Exit) -> None:
    task = processed()
    bench = RunnerBench(task)
    bench.executor.start(claim(task))
    child = await bench.begun_child()
    bench.executor.start(claim(task, job=OTHER_JOB))
    other = await bench.begun_child(1)
    child.die(exit, stacks="Fatal Python error: Segmentation fault")
    await bench.until_ended()
    moved = moved_in(bench)
    assert (moved.job, moved.to, moved.crashes, moved.failures) == (JOB, State.AVAILABLE, 1, 0)
    assert (moved.record, moved.precondition, moved.signal) == (AttemptOutcome.CRASHED, Precondition.TOKEN, str(exit))
    assert moved.stacks == "Fatal Python error: Segmentation fault"
    assert bench.log.of("runner.crashed") == [{"job": JOB, "task": "handler", "exit": str(exit)}]
    other.say(DONE)
    await bench.until_ended(2)
    assert moved_in(bench, 1).to is State.COMPLETED


@pytest.mark.virtual_time
async def test_an_outcome_that_a_runner_sent_before_it_died_counts() -> None:
    task = processed()
    bench = RunnerBench(task)
    bench.executor.start(claim(task))
    child = await bench.begun_child()
    child.say(DONE)
    child.die(Exit(1))
    await bench.until_ended()
    assert moved_in(bench).to is State.COMPLETED
    bench.executor.start(claim(task, job=OTHER_JOB))
    await bench.complete(1)  # The pool gives no job to the dead runner.
    await bench.until_ended(2)


@pytest.mark.virtual_time
async def test_s9_a_runner_that_dies_before_the_code_ran_charges_no_crash_and_none_is_started_for_a_while() -> None:
    task = processed(on_crash="fail")
    bench = RunnerBench(task)
    bench.executor.start(claim(task))
    child = await bench.child()
    child.say(messages.Ready())
    await child.next(messages.Run)
    child.die(Exit(1))
    await bench.until_ended()
    assert (moved_in(bench).to, moved_in(bench).record, moved_in(bench).crashes) == (State.AVAILABLE, None, 0)
    assert bench.pool.free(0) == 0
    await until(lambda: bench.pool.free(0))


@pytest.mark.virtual_time
async def test_a_job_whose_runner_cannot_start_is_released_and_each_retry_waits_longer() -> None:
    task = processed()
    bench = RunnerBench(task)
    bench.host.error = OSError("no more processes")
    waits = []
    for number in range(4):
        bench.executor.start(claim(task, number=number + 1))
        await bench.until_ended(number + 1)
        assert (moved_in(bench, number).to, moved_in(bench, number).record) == (State.AVAILABLE, None)
        failed = asyncio.get_running_loop().time()
        await until(lambda: bench.pool.free(0))
        waits.append(asyncio.get_running_loop().time() - failed)
    assert all(later > 1.3 * sooner for sooner, later in pairwise(waits)), waits
    assert bench.log.of("runner.unavailable")[0] == {"error": "no more processes", "failures": 1}
    bench.host.error = None
    bench.executor.start(claim(task))
    await bench.complete(0)
    await bench.until_ended(5)
    assert moved_in(bench, 4).to is State.COMPLETED


@pytest.mark.virtual_time
async def test_l4_a_runner_that_does_not_know_a_task_keeps_no_other_job_waiting() -> None:
    task = processed()
    bench = RunnerBench(task, size=1)

    async def start_unknown(runner: int) -> None:
        bench.executor.start(claim(task))
        child = await bench.child(runner)
        child.say(messages.Ready())
        await child.next(messages.Run)
        child.say(messages.TaskMissing())
        await bench.until_ended(runner + 1)

    await start_unknown(0)
    moved = moved_in(bench)
    assert (moved.to, moved.record, moved.delay, moved.crashes) == (State.AVAILABLE, None, None, 0)
    assert bench.ended[0].pause == PAUSE
    assert bench.pool.free(0) == 1
    assert (bench.log.of("task.unknown"), bench.log.of("runner.unavailable")) == ([{"task": "handler"}], [])
    await bench.host.children[0].next(messages.Shutdown)  # Another runner may have newer code.
    await start_unknown(1)
    bench.executor.start(claim(task, job=OTHER_JOB))
    await bench.host.children[1].next(messages.Run)  # It had not: the pool does not start a third one for that.
    bench.host.children[1].say(messages.RunStarted(), DONE)
    await bench.until_ended(3)
    assert moved_in(bench, 2).to is State.COMPLETED
    assert len(bench.log.of("task.unknown")) == 1


@pytest.mark.virtual_time
async def test_a_runner_that_refuses_to_start_reports_why() -> None:
    task = processed()
    bench = RunnerBench(task)
    bench.executor.start(claim(task))
    child = await bench.child()
    child.say(messages.Refused(("lifespan failed: OSError",)))
    child.die(Exit(2))
    await bench.until_ended()
    assert moved_in(bench).record is None
    assert moved_in(bench).error == Failure("RUNNER_UNAVAILABLE", "lifespan failed: OSError")
    assert bench.log.of("runner.unavailable") == [{"error": "lifespan failed: OSError", "failures": 1}]


@pytest.mark.virtual_time
async def test_a_runner_that_never_becomes_ready_is_ended() -> None:
    task = processed()
    bench = RunnerBench(task, runners=Runners(start_timeout="3s"))
    bench.executor.start(claim(task))
    child = await bench.child()
    await bench.until_ended()
    assert child.is_killed
    assert (moved_in(bench).to, moved_in(bench).record) == (State.AVAILABLE, None)


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("why", "to", "record", "within"),
    [
        (Stop.CANCELLED, State.CANCELLED, AttemptOutcome.CANCELLED, GRACE),
        (Stop.STALLED, State.AVAILABLE, AttemptOutcome.STALLED, GRACE - MARGIN / 2),
        (Stop.TIMED_OUT, State.AVAILABLE, AttemptOutcome.TIMED_OUT, GRACE - MARGIN / 2),
        (Stop.DRAINED, State.AVAILABLE, AttemptOutcome.RELEASED, MARGIN * 0.9),
        (Stop.LATE, State.AVAILABLE, AttemptOutcome.RELEASED, MARGIN * 0.4),
    ],
)
async def test_an_unresponsive_handler_is_ended_with_its_stacks_before_its_worker_would_have_to_end(
    why: Stop, to: State, record: AttemptOutcome, within: float
) -> None:
    task = processed(progress_within="60s", timeout="600s")
    bench = RunnerBench(task)
    bench.executor.start(claim(task))
    child = await bench.begun_child()
    stopped_at = asyncio.get_running_loop().time()
    bench.executor.stop(JOB, why)
    await child.next(messages.CancelRequested)
    assert not child.is_killed
    await bench.until_ended()
    assert child.is_killed
    assert asyncio.get_running_loop().time() - stopped_at <= within + 0.01
    moved = moved_in(bench)
    assert (moved.to, moved.record, moved.stacks, moved.crashes) == (to, record, STACKS, 0)
    assert moved.rescued == {Stop.CANCELLED: "unresponsive", Stop.DRAINED: "released", Stop.LATE: "released"}.get(why, why.value)
    assert [each["reason"] for each in bench.log.of("runner.killed")] == [why]
    assert bench.log.of("runner.crashed") == []


@pytest.mark.virtual_time
async def test_l5_a_handler_that_lost_its_job_is_notified_and_ended_soon() -> None:
    task = processed()
    bench = RunnerBench(task)
    bench.executor.start(claim(task))
    child = await bench.begun_child()
    stopped_at = asyncio.get_running_loop().time()
    bench.executor.stop(JOB, Stop.LOST)
    await child.next(messages.CancelRequested)
    await child.next(messages.JobLostNotice)
    await bench.until_ended()
    assert asyncio.get_running_loop().time() - stopped_at < MARGIN
    assert bench.ended[0].transition is None


@pytest.mark.virtual_time
async def test_a_more_urgent_reason_cuts_the_grace_short() -> None:
    task = processed()
    bench = RunnerBench(task)
    bench.executor.start(claim(task))
    await bench.begun_child()
    bench.executor.stop(JOB, Stop.CANCELLED)
    await turns()
    stopped_at = asyncio.get_running_loop().time()
    bench.executor.stop(JOB, Stop.LATE)
    await bench.until_ended()
    assert asyncio.get_running_loop().time() - stopped_at < MARGIN / 2
    assert moved_in(bench).to is State.CANCELLED


@pytest.mark.virtual_time
async def test_a_handler_that_ends_when_cancelled_keeps_its_runner_alive() -> None:
    task = processed()
    bench = RunnerBench(task)
    bench.executor.start(claim(task))
    child = await bench.begun_child()
    bench.executor.stop(JOB, Stop.CANCELLED)
    await child.next(messages.CancelRequested)
    child.say(messages.RunEnded())
    await bench.until_ended()
    assert (moved_in(bench).to, moved_in(bench).stacks, moved_in(bench).rescued) == (State.CANCELLED, None, None)
    bench.executor.start(claim(task, job=OTHER_JOB))
    await child.next(messages.Run)
    assert not child.is_killed


@pytest.mark.virtual_time
async def test_a_handler_that_completes_in_spite_of_its_cancellation_has_completed() -> None:
    task = processed()
    bench = RunnerBench(task)
    bench.executor.start(claim(task))
    child = await bench.begun_child()
    bench.executor.stop(JOB, Stop.DRAINED)
    child.say(DONE)
    await bench.until_ended()
    assert moved_in(bench).to is State.COMPLETED


@pytest.mark.virtual_time
@pytest.mark.parametrize("why", [Stop.CANCELLED, Stop.LATE])
async def test_a_job_stopped_while_its_runner_starts_has_not_run(why: Stop) -> None:
    task = processed(on_crash="fail")
    bench = RunnerBench(task)
    bench.executor.start(claim(task))
    child = await bench.child()
    bench.executor.stop(JOB, why)
    await bench.until_ended()
    assert child.is_killed, "the pool does not wait for it to become ready"
    assert moved_in(bench).to is (State.CANCELLED if why is Stop.CANCELLED else State.AVAILABLE)
    assert bench.pool.free(0) == 2, "the runner did not fail: the pool ended it"
    assert bench.log.of("runner.unavailable") == []


@pytest.mark.virtual_time
async def test_a_runner_that_becomes_ready_for_a_stopped_job_waits_for_the_next() -> None:
    task = processed()
    bench = RunnerBench(task)
    bench.executor.start(claim(task))
    child = await bench.child()
    bench.executor.stop(JOB, Stop.CANCELLED)
    await turns()
    child.say(messages.Ready())
    await bench.until_ended()
    bench.executor.start(claim(task, job=OTHER_JOB))
    await child.next(messages.CancelRequested)
    assert (await child.next(messages.Run)).claim.job.id == OTHER_JOB


@pytest.mark.virtual_time
async def test_progress_checkpoints_and_ignored_fields_reach_the_worker() -> None:
    task = processed()
    bench = RunnerBench(task)
    (job,) = await bench.open(("handler", b"{}"))
    await bench.exchange.step()
    child = await bench.child()
    child.say(messages.Ready())
    await child.next(messages.Run)
    child.say(messages.RunStarted(ignored=("new", "newer")))
    child.say(messages.Progressed("walk", 0.5, "half"), messages.Checkpointed(4, b'{"next":3}'))
    await until(lambda: bench.writer._waiters)
    await bench.writer.step()
    assert await child.next(messages.CallAnswered) == messages.CallAnswered(4)
    row = await bench.row(job)
    assert (row.stage, row.fraction, row.message, row.checkpoint) == ("walk", 0.5, "half", b'{"next":3}')
    assert [fields["job"] for fields in bench.log.of("job.started")] == [job]
    assert bench.log.of("payload.fields_ignored") == [{"job": job, "task": "handler", "fields": "new,newer"}]
    assert bench.reports.moves == [job, job]


@pytest.mark.virtual_time
async def test_the_parents_of_a_runners_job_are_read_by_its_worker() -> None:
    task = processed()
    bench = RunnerBench(task)
    policy = Policy()
    root, first, second = (
        NewJob(id=bench.chance.uuid7(), task=name, payload=b"{}", policy=policy) for name in ("w", "other", "handler")
    )
    members = (NewMember(first, Member(flow=root.id, node="build")), NewMember(second, Member(flow=root.id, node="read")))
    edges = (Edge(first.id, second.id), Edge(second.id, root.id))
    flow = NewFlow(root=NewMember(root, Member(flow=root.id, node="w", is_gate=True)), members=members, edges=edges)
    await bench.memory.open_lease(LEASE)
    await bench.memory.enqueue_flow(bench.chance.uuid4(), flow)
    request = ClaimRequest(lease=LEASE.id, claim=bench.chance.uuid4(), tasks={"other": policy}, limit=1)
    (found,) = (await bench.memory.exchange([], request)).claims
    await bench.memory.exchange([finish(found.job, Done(b"7"), jitter=0.0)])
    await bench.exchange.step()
    child = await bench.child()
    child.say(messages.Ready())
    await child.next(messages.Run)
    child.say(messages.RunStarted(), messages.ParentsAsked(1))
    assert await child.next(messages.CallAnswered) == messages.CallAnswered(1, parents={"build": (first.id,)})
    child.say(messages.OutcomesAsked(2, (first.id,)))
    assert await child.next(messages.CallAnswered) == messages.CallAnswered(2, outcomes={first.id: b"7"})
    child.say(DONE)
    await bench.until_ended()


@pytest.mark.virtual_time
async def test_s22_steps_and_signals_of_a_runner_are_written_by_its_worker_until_its_job_completes() -> None:
    task = processed()
    bench = RunnerBench(task)
    (job,) = await bench.open(("handler", b"{}"))
    await bench.memory.signal(job, Signal(bench.chance.uuid4(), "go", b"7"))
    await bench.exchange.step()
    child = await bench.child()
    child.say(messages.Ready())
    await child.next(messages.Run)
    child.say(messages.RunStarted(), messages.StepsAsked(1))
    found = (await child.next(messages.CallAnswered)).steps
    assert found is not None
    assert found.records == ()
    wait = StepRecord(name=":wait_for:go", nth=1, place=1, is_sequential=True)
    child.say(messages.StepRecorded(2, STEP))
    assert await child.next(messages.CallAnswered) == messages.CallAnswered(2)
    child.say(messages.SignalAsked(3, "go", wait))
    assert await child.next(messages.CallAnswered) == messages.CallAnswered(3, taken=SignalTaken(b"7"))
    assert (await bench.memory.steps(job)).records == (STEP, structs.replace(wait, result=b"7"))
    child.say(structs.replace(DONE, unused_steps=("'old' (use 1)",)))
    await bench.until_ended()
    await bench.settle()
    assert (await bench.memory.steps(job)).records == ()
    assert bench.log.of("steps.unused") == [{"job": job, "task": "handler", "steps": "'old' (use 1)"}]


@pytest.mark.virtual_time
async def test_s22_a_runner_that_lost_its_job_records_nothing() -> None:
    task = processed()
    bench = RunnerBench(task)
    bench.executor.start(claim(task))
    child = await bench.begun_child()
    bench.executor.stop(JOB, Stop.LOST)
    child.say(messages.StepsAsked(1), messages.StepRecorded(2, STEP), messages.SignalAsked(3, "go", STEP))
    await until(lambda: sum(isinstance(each, messages.CallAnswered) for each in child.received) == 3)
    answers = [each for each in child.received if isinstance(each, messages.CallAnswered)]
    assert {each.problem for each in answers} == {messages.CallProblem.LOST}
    assert not {"steps", "record_step", "take_signal"} & set(bench.store.calls)


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("why", "problem"), [(Stop.LOST, messages.CallProblem.LOST), (Stop.CANCELLED, messages.CallProblem.STOPPED)]
)
async def test_a_checkpoint_that_waits_is_answered_when_its_job_is_to_stop(why: Stop, problem: messages.CallProblem) -> None:
    task = processed()
    bench = RunnerBench(task)
    bench.executor.start(claim(task))
    child = await bench.begun_child()
    child.say(messages.Checkpointed(1, b"1"))
    await until(lambda: bench.writer._waiters)
    bench.executor.stop(JOB, why)
    await until(lambda: any(isinstance(each, messages.CallAnswered) for each in child.received))
    (answer,) = [each for each in child.received if isinstance(each, messages.CallAnswered)]
    assert (answer.call, answer.problem) == (1, problem)


@pytest.mark.virtual_time
async def test_s3_a_handler_that_lost_its_job_writes_nothing() -> None:
    task = processed()
    bench = RunnerBench(task)
    bench.executor.start(claim(task))
    child = await bench.begun_child()
    bench.executor.stop(JOB, Stop.LOST)
    child.say(messages.Progressed("walk"), messages.Checkpointed(1, b"1"))
    await until(lambda: any(isinstance(each, messages.CallAnswered) for each in child.received))
    assert bench.writer._updates == {}


WEARS = {
    "jobs": (Runners(max_jobs=2), 1000),
    "growth": (Runners(max_growth=500), 1500),
    "memory": (Runners(max_memory=1400, max_growth=None), 1400),
}


@pytest.mark.virtual_time
@pytest.mark.parametrize("how", WEARS)
async def test_a_worn_runner_leaves_after_its_job_and_its_successor_has_started_by_then(how: str) -> None:
    runners, memory = WEARS[how]
    task = processed()
    bench = RunnerBench(task, size=1, runners=runners)
    bench.executor.start(claim(task))
    child = await bench.begun_child()
    child.say(structs.replace(DONE, memory=1000))
    await bench.until_ended()
    assert len(bench.host.children) == 1
    bench.executor.start(claim(task, number=2))
    await child.next(messages.Run)
    child.say(messages.RunStarted(), structs.replace(DONE, memory=memory))
    await bench.until_ended(2)
    assert (len(bench.host.children), bench.pool.free(0)) == (2, 1)
    await child.next(messages.Shutdown)
    bench.executor.start(claim(task, number=3))  # it waits for the successor, and starts no third process
    await turns()
    await bench.complete(1)
    await bench.until_ended(3)
    child.die(Exit(0))
    assert (len(bench.host.children), child.is_killed) == (2, False)


@pytest.mark.virtual_time
async def test_a_nearly_worn_runner_goes_on_until_its_successor_is_ready() -> None:
    task = processed()
    bench = RunnerBench(task, size=1, runners=Runners(max_jobs=5))

    async def run_one(child: FakeChild, number: int) -> None:
        bench.executor.start(claim(task, number=number))
        await child.next(messages.Run)
        child.say(messages.RunStarted(), DONE)
        await bench.until_ended(number)

    bench.executor.start(claim(task))
    await bench.complete()
    await bench.until_ended()
    for number in (2, 3, 4):
        assert len(bench.host.children) == 1
        await run_one(bench.host.children[0], number)
    successor = await bench.child(1)
    successor.say(messages.Ready())
    await turns()
    await run_one(bench.host.children[0], 5)
    await bench.host.children[0].next(messages.Shutdown)
    bench.host.children[0].die(Exit(0))
    await run_one(successor, 6)
    assert len(bench.host.children) == 2


async def worn_bench(*, size: int = 1) -> tuple[RunnerBench, FakeChild]:
    """Return a bench with a worn runner that has left, and its successor, which is not ready yet."""
    task = processed()
    bench = RunnerBench(task, size=size, runners=Runners(max_jobs=1, start_timeout="3s"))
    bench.executor.start(claim(task))
    await bench.complete()
    await bench.until_ended()
    bench.host.children[0].die(Exit(0))
    return bench, await bench.child(1)


@pytest.mark.virtual_time
async def test_a_successor_that_fails_before_its_first_job_is_reported_and_charges_nothing() -> None:
    bench, successor = await worn_bench()
    successor.say(messages.Refused(("on_start failed: OSError",)))
    successor.die(Exit(2))
    await turns()
    bench.executor.start(claim(processed(), number=2))
    await bench.until_ended(2)
    assert (moved_in(bench, 1).to, moved_in(bench, 1).record, moved_in(bench, 1).failures) == (State.AVAILABLE, None, 0)
    assert bench.log.of("runner.unavailable") == [{"error": "on_start failed: OSError", "failures": 1}]
    assert bench.pool.free(0) == 0


@pytest.mark.virtual_time
async def test_a_job_stopped_while_it_waits_for_a_successor_has_not_run() -> None:
    bench, successor = await worn_bench()
    bench.executor.start(claim(processed(), number=2))
    await turns()
    bench.executor.stop(JOB, Stop.LATE)
    await bench.until_ended(2)
    assert successor.is_killed
    assert (moved_in(bench, 1).to, moved_in(bench, 1).record) == (State.AVAILABLE, None)


@pytest.mark.virtual_time
async def test_an_idle_runner_is_taken_before_one_that_still_starts() -> None:
    bench, successor = await worn_bench(size=2)
    successor.say(messages.Ready())
    task = processed()
    bench.executor.start(claim(task, number=2))
    await successor.next(messages.Run)
    bench.executor.start(claim(task, job=OTHER_JOB, number=3))
    third = await bench.begun_child(2)
    third.say(DONE)  # worn too: a fourth process starts, and stands behind what is ready
    await bench.until_ended(2)
    successor.say(messages.RunStarted(), DONE)
    await bench.until_ended(3)
    assert len(bench.host.children) == 5


@pytest.mark.virtual_time
async def test_without_a_successor_the_pool_goes_on_and_reports_it() -> None:
    task = processed()
    bench = RunnerBench(task, runners=Runners(max_jobs=1))
    bench.executor.start(claim(task))
    child = await bench.begun_child()
    bench.host.error = OSError("no more processes")
    child.say(DONE)
    await bench.until_ended()
    assert moved_in(bench).to is State.COMPLETED
    assert bench.log.of("runner.unavailable") == [{"error": "no more processes", "failures": 1}]


@pytest.mark.virtual_time
@pytest.mark.parametrize("kill_after", [0.0, 1.0])
async def test_code_past_its_limit_is_killed_kill_after_later_and_not_after_the_grace(kill_after: float) -> None:
    task = processed(timeout="600s")
    bench = RunnerBench(task, runners=Runners(kill_after=kill_after))
    bench.executor.start(claim(task))
    child = await bench.begun_child()
    bench.executor.start(claim(task, job=OTHER_JOB))
    sibling = await bench.begun_child(1)
    stopped_at = asyncio.get_running_loop().time()
    bench.executor.stop(JOB, Stop.TIMED_OUT)
    await child.next(messages.CancelRequested)
    await bench.until_ended()
    assert asyncio.get_running_loop().time() - stopped_at == pytest.approx(kill_after, abs=0.01)
    assert (child.is_killed, sibling.is_killed, moved_in(bench).record) == (True, False, AttemptOutcome.TIMED_OUT)
    assert not any(isinstance(each, messages.CancelRequested) for each in sibling.received)


@pytest.mark.virtual_time
async def test_the_supervisor_is_asked_to_judge_a_limit_when_it_passes_and_not_after_the_end() -> None:
    task = processed(timeout="10s")
    bench = RunnerBench(task)
    begun_at = asyncio.get_running_loop().time()
    bench.executor.start(claim(task))
    child = await bench.begun_child()
    await until(lambda: bench.reports.overdues)
    assert asyncio.get_running_loop().time() - begun_at == pytest.approx(10.0, abs=0.05)
    child.say(DONE)
    await bench.until_ended()
    bench.executor.start(claim(task, job=OTHER_JOB))
    await child.next(messages.Run)
    child.say(messages.RunStarted(), DONE)
    await bench.until_ended(2)
    later = asyncio.get_running_loop().time() + 11.0
    await until(lambda: asyncio.get_running_loop().time() > later)
    assert bench.reports.overdues == 1


@pytest.mark.virtual_time
@pytest.mark.parametrize("is_obedient", [True, False])
async def test_a_drain_shuts_idle_runners_down_and_kills_those_that_do_not_exit(is_obedient: bool) -> None:
    task = processed()
    bench = RunnerBench(task)
    bench.executor.start(claim(task))
    child = await bench.begun_child()
    child.say(DONE)
    await bench.until_ended()
    closing = asyncio.get_running_loop().create_task(bench.pool.close())
    await child.next(messages.Shutdown)
    assert not closing.done()
    if is_obedient:
        child.die(Exit(0))
    await closing
    assert child.is_killed is not is_obedient


@pytest.mark.virtual_time
async def test_a_runner_whose_job_outlives_its_worker_ends_with_that_job() -> None:
    task = processed()
    bench = RunnerBench(task)
    bench.executor.start(claim(task))
    child = await bench.begun_child()
    await bench.pool.close()
    child.say(DONE)
    await child.next(messages.Shutdown)
    child.die(Exit(0))
    await bench.until_ended()
    assert moved_in(bench).to is State.COMPLETED
    assert not child.is_killed


@pytest.mark.virtual_time
async def test_rubbish_in_the_pipe_ends_the_runner_and_charges_its_job_a_crash() -> None:
    task = processed()
    bench = RunnerBench(task)
    bench.executor.start(claim(task))
    child = await bench.begun_child()
    child.theirs.send(b"\xc1 not a message")
    await bench.until_ended()
    assert child.is_killed
    assert moved_in(bench).crashes == 1


@pytest.mark.virtual_time
async def test_messages_about_a_job_that_has_ended_are_ignored() -> None:
    task = processed()
    bench = RunnerBench(task)
    bench.executor.start(claim(task))
    child: FakeChild = await bench.begun_child()
    child.say(DONE, messages.Progressed("late"), messages.Checkpointed(1, b"1"), DONE)
    await bench.until_ended()
    await turns()
    assert bench.writer._updates == {}
    assert len(bench.ended) == 1
