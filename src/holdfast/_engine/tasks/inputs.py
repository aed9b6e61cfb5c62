"""``job.inputs``: the outcomes of a node that the job depends on, page by page."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from holdfast._core.inputs import INPUTS_LIMIT, NOT_AVAILABLE
from holdfast._core.job import Failed
from holdfast._core.parents import unknown_parent
from holdfast._core.payload import RESULT_LIMIT, reader_of
from holdfast._engine.tasks.job_context import JobContext
from holdfast.errors import ConfigurationError, PayloadInvalid

PAGE = INPUTS_LIMIT // RESULT_LIMIT
"""The outcomes that are in memory at once: no more bytes than a job gets as arguments."""

Page = list[tuple[int, bytes | Failed]]


class InputReads(JobContext):
    """What both kinds of jobs share to read the outcomes of their parents."""

    _parents: Mapping[str, Sequence[UUID]] | None = None

    async def _input_jobs(self, node: str) -> Sequence[UUID]:
        """Return the jobs whose outcomes are those of a node: of a map its items, else the node itself."""
        self._require_owned()
        if self._parents is None:
            self._parents = await self._reporter.children.parents(self._claim.job)
        if node not in self._parents:
            raise ConfigurationError([unknown_parent(node, self._parents)])
        return self._parents[node]

    async def _input_page(self, jobs: Sequence[UUID], start: int) -> Page:
        """Return the outcomes of some jobs from a position on, each with its position."""
        self._require_owned()
        page = jobs[start : start + PAGE]
        found = await self._reporter.children.outcomes(self._claim.job, page)
        return [(start + place, found.get(job, NOT_AVAILABLE)) for place, job in enumerate(page)]


def input_reader(node: str, kind: Any) -> Callable[[int, bytes | Failed], Any]:
    """Return a function that reads the outcome at a position as this type."""
    read = reader_of(kind)

    def read_one(place: int, outcome: bytes | Failed) -> Any:
        if isinstance(outcome, Failed):
            return outcome
        try:
            return read(outcome)
        except PayloadInvalid as error:
            raise PayloadInvalid(f"job.inputs({node!r}), item {place}: {error}") from error

    return read_one
