"""The workflows, steps and signals of a PostgreSQL database, read in one statement."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct, structs

from holdfast._core.encoding import member_of
from proof.checker.flow_rows import FlowRow
from proof.stores.mirrored_flows import FlowsSeen, Signalled

BESIDE_JOBS = ("steer_flow", "revive", "enqueue_after", "record_step", "take_signal", "signal")
"""The verbs that may change a workflow, a step or a signal where no row of a job changes."""
_ALL = """
SELECT json_build_object(
    'members', (
        SELECT coalesce(json_agg(json_build_array(m.job, m.flow, json_build_array(
            m.node, m.required, m.on_failure, m.is_gate::integer, m.inputs::json, m.needs, m.waits,
            coalesce(p.state = 'held' AND p.held_for = 'pause', false)::integer, m.is_suspended::integer
        )::text) ORDER BY m.flow, m.position, m.job), '[]')
        FROM holdfast.members AS m LEFT JOIN holdfast.pending AS p ON p.id = m.job
    ),
    'flows', (
        SELECT coalesce(json_agg(json_build_array(f.id, json_build_object(
            'is_paused', f.paused_at IS NOT NULL AND f.ended_for IS NULL, 'ended_for', f.ended_for, 'deadline_at', f.deadline_at,
            'edges', (
                SELECT coalesce(json_agg(json_build_object(
                    'parent', e.parent, 'child', e.child, 'tolerates', e.tolerates, 'is_child', e.is_child, 'parent_flow', e.parent_flow
                ) ORDER BY e.child, e.parent), '[]')
                FROM holdfast.edges AS e JOIN holdfast.members AS m ON m.job = e.child WHERE m.flow = f.id
            )
        )) ORDER BY f.id), '[]')
        FROM holdfast.flows AS f
    ),
    'steps', (
        SELECT coalesce(json_agg(json_build_array(s.job, s.name, s.nth, convert_from(s.result, 'UTF8')) ORDER BY s.job, s.place), '[]')
        FROM holdfast.steps AS s
    ),
    'signals', (
        SELECT coalesce(json_agg(json_build_array(s.place, json_build_object(
            'job', s.job, 'name', s.name, 'value', convert_from(s.value, 'UTF8')
        )) ORDER BY s.place), '[]')
        FROM holdfast.signals AS s
    )
)::text
"""


class _Read(Struct):
    members: list[tuple[UUID, UUID, str]]
    flows: list[tuple[UUID, FlowRow]]
    steps: list[tuple[UUID, str, int, str | None]]
    signals: list[tuple[int, Signalled]]


class FlowReader:
    """Readings of one database. ``fetchval``: runs a statement there, and returns its one value."""

    def __init__(self, fetchval: Callable[[str], Awaitable[Any]]) -> None:
        self._fetchval = fetchval
        self._text, self._seen = "", FlowsSeen(at=datetime.min)

    async def read(self, now: datetime) -> FlowsSeen:
        """Return all workflows, steps and signals at a time of the server's clock."""
        text = await self._fetchval(_ALL)
        if text != self._text:
            self._text, self._seen = text, _decoded(text)
        return structs.replace(self._seen, at=now)


def _decoded(text: str) -> FlowsSeen:
    read = msgspec.json.decode(text, type=_Read)
    members = {job: member_of(flow, values) for job, flow, values in read.members}
    return FlowsSeen(
        at=datetime.min,
        members={job: member for job, member in members.items() if member is not None},
        flows=dict(read.flows),
        steps={(job, name, nth): result for job, name, nth, result in read.steps},
        signals=dict(read.signals),
    )
