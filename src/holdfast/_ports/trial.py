"""A trial: one job goes through every write of a store, in a transaction that the caller rolls back.

Database catalogs cannot replace it: a trigger, a publication, a full disk or a lost right refuses a write only when it is made.
"""

from collections.abc import AsyncIterator

from holdfast._core.answers import Answer, Check
from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import NewJob, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd, finish, release
from holdfast._core.outcome import Done
from holdfast._core.policy import Policy
from holdfast._core.requests import AttemptNote, ClaimRequest, NewLease, ProgressUpdate
from holdfast._core.timing import LeaseTiming
from holdfast._ports.clock import Randomness
from holdfast._ports.store import Store
from holdfast.errors import HoldfastError, StoreDamaged

TASK = "holdfast.check"
"""The task and the queue of the job."""
LIMITED = "claim within a limit of the cluster"
"""A step that is left out: the limit may be full."""

_PAYLOAD = b'"' + b"x" * 1024 + b'"'  # too long for the row of its job
_POLICY = Policy(retention=2 * 86400.0)  # long enough for a partition of a day


async def try_out(store: Store, chance: Randomness, process: ProcessIdentity) -> Check:
    """Return the finding whether a job can be moved; the store must run all of it in one transaction, rolled back afterwards."""
    step, moves = "begin", "enqueued, claimed, settled and deleted"
    try:
        async for next_step in _steps(store, chance, process):
            step = next_step
            if step == LIMITED:
                moves = "enqueued and deleted, but not claimed, because a limit counts all jobs,"
    except HoldfastError as error:
        return stuck(step, error)
    return Check("ok", "job", f"a job was {moves} in a transaction that was rolled back")


def stuck(step: str, error: HoldfastError) -> Check:
    """Return the finding that a job cannot move, and why."""
    if isinstance(error, StoreDamaged):
        return Check("error", "job", f"a job cannot move, at {step}: {error}", "restore a backup")
    remedy = "see the store's message: a right, a trigger, a constraint, a publication or a full disk is in the way"
    return Check("error", "job", f"a job cannot move, at {step}: {error}", remedy)


async def _steps(store: Store, chance: Randomness, process: ProcessIdentity) -> AsyncIterator[str]:
    """Yield the name of each step before the step is made."""
    job = NewJob(id=chance.uuid7(), task=TASK, queue=TASK, payload=_PAYLOAD, policy=_POLICY, unique_key=str(chance.uuid4()))
    worker = NewLease(chance.uuid4(), TASK, process, LeaseTiming(30.0, 6.0, 5.0), (TASK,), (TASK,), 0.0, 1)
    yield "enqueue"
    await store.enqueue(chance.uuid4(), [job])
    yield "open lease"
    await store.open_lease(worker)
    yield "beat"
    await store.beat([worker.id])
    for is_last in (False, True):
        yield "claim"
        answer = await store.exchange([], _request(worker, chance, job))
        if not answer.claims and answer.has_limited:
            yield LIMITED
            break
        _require(len(answer.claims) == 1, "the claim answers no job")
        hold = answer.claims[0].job
        yield "report"
        await store.report([ProgressUpdate(job=job.id, token=hold.token, stage="check", checkpoint=b"1", order=1)])
        yield "settle"
        settle = finish(hold, Done(b"1"), jitter=0.0) if is_last else release(hold, code_ran=True)
        _require((await store.exchange([settle])).answers == (Answer.APPLIED,), "the settle changes nothing")
        yield "annotate"
        await store.annotate([AttemptNote(job=job.id, token=hold.token, stacks="check")])
    else:
        yield "read"
        found = await store.get(job.id)
        _require(found is not None and found.state is State.COMPLETED, "it is not there after its settle")
    yield "delete"
    await store.delete([job.id])
    yield "end lease"
    await store.end_lease(worker.id, LeaseEnd(RescueReason.CLOSED, is_free=True))
    yield "pause"
    await store.pause([TASK], is_paused=True)
    await store.pause([TASK], is_paused=False)


def _request(worker: NewLease, chance: Randomness, job: NewJob) -> ClaimRequest:
    return ClaimRequest(lease=worker.id, claim=chance.uuid4(), tasks={TASK: job.policy}, limit=1, ids=(job.id,))


def _require(is_so: bool, what: str) -> None:
    if not is_so:
        raise HoldfastError(f"{what}: the write was answered, and nothing came of it")
