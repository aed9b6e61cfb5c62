"""The optional part of the store port that keeps durable steps and signals."""

from typing import Protocol
from uuid import UUID

from holdfast._core.job import Token
from holdfast._core.steps import Signal, SignalAnswer, SignalTaken, StepList, StepRecord


class Steps(Protocol):
    """The verbs of steps and signals. The records of a job are deleted with it, or when it completes with ``forgets_steps``.

    A store with these verbs also does what transitions ask for. One that ``awaits`` a signal makes the job due at once if there is such a
    signal, judged under the lock of the job's row. Without one, the job is due after its delay, and is shown as blocked until then.
    """

    async def steps(self, job: UUID) -> StepList:
        """Return the job's steps in the order of their places, none for an unknown job; and the store's time."""
        ...

    async def record_step(self, job: UUID, token: Token, record: StepRecord) -> bool:
        """Write the record of a step; ``False``, and nothing is written, unless the job is active under the token.

        A rescue of the job commits after the record, or the record is not written. A record that exists stays as it is.
        """
        ...

    async def take_signal(self, job: UUID, token: Token, name: str, record: StepRecord) -> SignalTaken:
        """Consume the job's oldest signal of that name, and write its value as the result of this step, in one write under the token.

        If the step has a record already, nothing is consumed, and the answer is the result in that record.
        """
        ...

    async def signal(self, job: UUID, signal: Signal) -> SignalAnswer:
        """Keep a signal for an unfinished job until the job asks for it, and make the job due now if it awaits one of that name.

        A copy of a call that was accepted, early or late, is answered ``ACCEPTED`` and keeps no second signal, until the floor of
        retention has passed. At most ``MOST_SIGNALS`` of a job are kept, but calls at the same instant may exceed that.
        """
        ...

    async def job_with_key(self, task: str, unique_key: str) -> UUID | None:
        """Return the unfinished job of the task that has this unique key."""
        ...
