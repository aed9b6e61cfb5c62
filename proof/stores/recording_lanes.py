"""The part of a recording book that concerns lanes: limits, settings of queues, and what claims got."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from holdfast._core.audit import AuditNote
from holdfast._core.book.moment import Moment
from holdfast._core.book.rows import KeptLimit
from holdfast._core.job import Claim, Token
from holdfast._core.lanes import Cursor
from holdfast._core.limits import Limit, Scope
from holdfast._core.origin import Origin
from holdfast._core.requests import ClaimRequest, QueueSettings
from proof.checker.history import By
from proof.checker.lane_rows import ClaimRow, LimitRow, QueueRow
from proof.stores.recording_flows import RecordingFlows

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Made = tuple[tuple[Claim, ...], Cursor, bool]


class RecordingLanes(RecordingFlows):
    """A mixin before a correct or a broken book: it records limits, settings of queues and claims, and changes nothing."""

    records_claims = False
    _by: By | None
    _tokens: Collection[tuple[UUID, Token]]

    def set_limit(self, now: Moment, scope: Scope, limit: Limit | None, origin: Origin, *, by: AuditNote | None = None) -> None:
        """Record the new limit of a scope."""
        before = self._all.limits.get(scope)
        super().set_limit(now, scope, limit, origin, by=by)
        self._record_limit(scope, before, By("set_limit"))

    def set_queue(self, now: Moment, queue: str, settings: QueueSettings | None, *, by: AuditNote | None = None) -> None:
        """Record the new settings of a queue; its waiting jobs get their priority in the same write."""
        before = self._all.queue_settings.get(queue)
        self._by, self._tokens = By("set_queue"), ()
        super().set_queue(now, queue, settings, by=by)
        self._record_queue(queue, before, self._by)

    def record_lanes(self, limits: Mapping[Scope, KeptLimit], settings: Mapping[str, QueueSettings], by: By) -> None:
        """Record what has changed since."""
        for scope in sorted({*limits, *self._all.limits}):
            if limits.get(scope) != self._all.limits.get(scope):
                self._record_limit(scope, limits.get(scope), by)
        for queue in sorted({*settings, *self._all.queue_settings}):
            if settings.get(queue) != self._all.queue_settings.get(queue):
                self._record_queue(queue, settings.get(queue), by)

    def _claim(self, request: ClaimRequest, now: Moment) -> Made:
        if not self.records_claims:
            return super()._claim(request, now)
        is_entitled = self._is_entitled(request, now)
        claims, cursor, is_whole = super()._claim(request, now)
        made = ClaimRow(
            at=(now.wall - _EPOCH) // timedelta(microseconds=1),
            lease=request.lease,
            room=request.room,
            tasks=tuple(request.tasks),
            kind=request.kind,
            queues=request.queues,
            isolated=request.isolated,
            is_named=request.ids is not None,
            is_entitled=is_entitled,
            is_whole=is_whole,
            taken=tuple((claim.job.id, claim.job.token) for claim in claims),
        )
        self._note("claim.made", By("claim", call=request.claim), lease=request.lease, after=made)
        return claims, cursor, is_whole

    def _is_entitled(self, request: ClaimRequest, now: Moment) -> bool:
        lease = self._all.leases.get(request.lease)
        if lease is None or lease.end is not None or self._overdue(lease, now) > 0:
            return False
        if request.voids is not None and lease.voids != request.voids:
            return False
        return not (lease.spec.is_isolated and self._all.holds.get(request.lease))

    def _record_limit(self, scope: Scope, before: KeptLimit | None, by: By) -> None:
        after = self._all.limits.get(scope)
        old, new = (None if each is None else LimitRow(scope, each.limit) for each in (before, after))
        self._record("limit", by, note=str(scope), before=old, after=new)

    def _record_queue(self, queue: str, before: QueueSettings | None, by: By) -> None:
        after = self._all.queue_settings.get(queue)
        old, new = (None if each is None else QueueRow(queue, each.weight, each.key_weights) for each in (before, after))
        self._record("queue.settings", by, note=queue, before=old, after=new)

    def _note(self, what: str, by: By | None, **fields: Any) -> None:
        raise NotImplementedError
