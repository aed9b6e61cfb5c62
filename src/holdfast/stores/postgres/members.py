"""The moves of members of workflows: each is a transaction that locks their workflows first, and then sees what others have committed."""

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TypeVar
from uuid import UUID

from holdfast._core.graph import Ended
from holdfast._core.job import Reason, State
from holdfast._core.lifecycle import Transition
from holdfast._core.member import OnFailure
from holdfast._core.policy import RETENTION_FLOOR
from holdfast._core.workflow import FlowVerb, SteerFlow
from holdfast.errors import StoreBusy
from holdfast.stores.postgres import parameters as packing
from holdfast.stores.postgres.claiming import Claiming
from holdfast.stores.postgres.flow_plan import FlowPlan
from holdfast.stores.postgres.locked_flows import KeyTaken, KnownMember, LockedFlows, MoreFlows, lock_order
from holdfast.stores.postgres.records import Row
from holdfast.stores.postgres.settled_members import SettledMember, completed_member, settled_members

Answer = TypeVar("Answer")

BRIEF: Final = "SET LOCAL lock_timeout = '1s'; SET LOCAL idle_in_transaction_session_timeout = '10s'"
"""Settings of a transaction for which a worker or a pass waits: a workflow that is locked for longer is left, and asked for again."""


class MemberMoves(Claiming):
    """The part of the store that moves members of workflows."""

    async def _with_flows(self, name: str, move: Callable[[frozenset[UUID]], Awaitable[Answer]]) -> Answer:
        """Return what a move in one transaction returns; it is given the workflows to lock beside those that it names itself."""
        more = frozenset[UUID]()
        while True:
            try:
                return await self._retrying(partial(move, more), name)
            except MoreFlows as missing:
                more |= missing.flows

    @asynccontextmanager
    async def _locking(
        self, flows: Iterable[UUID] = (), settings: str = "", more: Collection[UUID] = ()
    ) -> AsyncIterator[LockedFlows]:
        """Lock workflows for a transaction. Only inside ``_with_flows``, or ``_retrying`` if no member moves."""
        async with self._transaction(settings=settings) as connection:
            locked = LockedFlows(partial(self._fetch_on, connection), more=more)
            if wanted := list(flows):
                await locked.lock(wanted)
            yield locked
        self._flow_changes.add(locked.changes)

    async def _settle_members(self, transitions: Sequence[Transition]) -> tuple[int, frozenset[int]]:
        """Settle members, with what depends on them; return as ``_settle`` does. A workflow that stays locked is left."""
        flow_of = {each.job: each.job if each.flow is None else each.flow for each in transitions}
        children = {each.job: each.children for each in transitions if each.children is not None}
        begun = lock_order(each.job for each in transitions if each.flow is None)
        plain, rare = packing.split(transitions)

        async def settle(more: frozenset[UUID]) -> tuple[int, frozenset[int]]:
            wanted = lock_order([*flow_of.values(), *more])
            locks = [self._lock_text("begin_flows", begun)] * bool(begun) + [self._lock_text("lock_flows", wanted)]
            async with self._transaction(settings="; ".join([BRIEF, *locks])) as connection:
                flows = LockedFlows(partial(self._fetch_on, connection), wanted)
                ended, settled, refused, suspended, links = list[SettledMember](), 0, list[int](), list[UUID](), None
                if plain:
                    ((completed, links),) = await flows.fetch("settle_members", *packing.settling(plain), flows.locked)
                    ended += [completed_member(job, flow_of[job]) for job in completed or ()]
                    settled = len(ended)
                if rare:
                    values = *packing.settling(rare), packing.rare_kinds(rare), flows.locked
                    ((number, refused, text, suspended),) = await flows.fetch("settle", *values)
                    ended, settled = ended + settled_members(text), settled + number
                await flows.pass_on(ended, links if not rare and len({*flow_of.values()}) == 1 else None)
                if suspended:
                    await flows.lock(flows.locked)  # they are: this reads their states
                for job in suspended:
                    await flows.adopt(job, children[job])
                if forgotten := {*begun}.difference(suspended):
                    await flows.fetch("forget_flows", [*forgotten])
            self._flow_changes.add(flows.changes)
            return settled, frozenset(refused)

        try:
            return await self._with_flows("exchange", settle)
        except StoreBusy:
            return 0, frozenset()

    def _lock_text(self, query: str, flows: Iterable[UUID]) -> str:
        """Return SQL that locks workflows and is sent with the begin of a transaction: that saves a round trip."""
        return self._sql(query).replace("$1", "'{" + ",".join(map(str, flows)) + "}'")

    async def _move_members(
        self, verb: str, jobs: Sequence[UUID], more: Sequence[Any], taken: dict[UUID, UUID]
    ) -> dict[UUID, State]:
        """Run an operator's verb on members, and return their states after it."""

        async def move(more_flows: frozenset[UUID]) -> tuple[dict[UUID, UUID], Sequence[Any]]:
            async with self._locking(more=more_flows) as flows:
                await flows.lock_of(jobs)
                return await move_members(flows, verb, jobs, more), await flows.fetch("states", list(jobs))

        newly_taken, rows = await self._with_flows(verb, move)
        taken |= newly_taken
        self._forget_positions()  # some of them may be due again before these
        return {row["id"]: State(row["early_as"] or row["state"]) for row in rows}

    async def _expire_members(self, expired: Mapping[UUID, UUID]) -> set[UUID]:
        """End members that have expired, given with their workflows; return those that have ended."""
        by_flow, ended = defaultdict[UUID, list[UUID]](list), set[UUID]()
        for job, flow in expired.items():
            by_flow[flow].append(job)
        for flow, jobs in by_flow.items():

            async def expire(more: frozenset[UUID], flow: UUID = flow, jobs: Sequence[UUID] = jobs) -> set[UUID]:
                async with self._locking([flow], BRIEF, more) as flows:
                    rows = await flows.fetch("expired_members", jobs)
                    over = [Ended(row["id"], False, OnFailure(row["on_failure"])) for row in rows]
                    if over and flow in flows.flows:
                        await flows.decide(lambda plan: _end(plan, flow, over, State.FAILED, Reason.EXPIRED))
                    return {each.id for each in over}

            try:
                ended |= await self._with_flows("expire", expire)
            except StoreBusy:
                continue
        return ended

    async def _prune_flows(self, roots: Sequence[UUID], limit: int) -> tuple[int, int]:
        """Delete workflows whose retention is over; return how many jobs, and how many roots were reduced to stubs."""

        async def prune() -> tuple[int, int]:
            async with self._locking(settings=BRIEF) as flows:
                locked = [row["id"] for row in await flows.fetch("lock_free_flows", roots)]
                ((jobs, stubs),) = await flows.fetch("prune_flows", locked, limit, round(RETENTION_FLOOR * 1e6))
            return jobs, stubs

        return await self._retrying(prune, "prune")


def members_of(rows: Sequence[Row], asked: Sequence[UUID]) -> list[UUID]:
    """Return the members that a statement has left as they are, in the order in which they were asked for."""
    left = {row["id"] for row in rows if row.get("flow") is not None}
    return [job for job in asked if job in left]


async def move_members(flows: LockedFlows, verb: str, jobs: Sequence[UUID], more: Sequence[Any]) -> dict[UUID, UUID]:
    """Run an operator's verb on members of locked workflows; return those that stay finished because another job has a unique key."""
    taken = dict[UUID, UUID]()
    match verb:
        case "request_cancel":
            await _cancel(flows, await flows.members(jobs))
        case "reopen":
            taken = await _reopen(flows, await flows.members(jobs), is_fresh=more[0])
        case "delete":
            waiting = {each.id for each in await flows.members(jobs) if each.is_waiting}
            gone = {row["job"] for row in await flows.fetch("delete_members", list(jobs), more[0], flows.locked)}
            if lost := sorted(waiting & gone):
                await flows.decide(lambda plan: plan.lose(lost))
        case _:
            raise AssertionError(verb)
    return taken


async def _cancel(flows: LockedFlows, members: Sequence[KnownMember]) -> None:
    """Cancel members, with what they wait for if that are their children; with a root its workflow."""
    roots = [each.id for each in members if each.id == each.flow]
    plain = [each for each in members if each.id != each.flow]
    if any(each.waits_for_children for each in plain):
        plain = await _with_children(flows, plain)
        await flows.fetch("cancel_after_children", [each.id for each in plain if each.waits_for_children])
    await flows.fetch("mark_members", [each.id for each in plain if each.is_active], None)
    waiting = defaultdict[UUID, list[Ended]](list)
    for each in plain:
        if each.is_waiting and not each.waits_for_children:
            waiting[each.flow].append(Ended(each.id, False, each.on_failure))

    def act(plan: FlowPlan) -> None:
        for flow, ended in waiting.items():
            _end(plan, flow, ended, State.CANCELLED, Reason.BY_OPERATOR)
        for root in roots:
            if plan.is_unfinished(root):
                plan.steer(root, SteerFlow(verb=FlowVerb.CANCEL))

    if members:
        await flows.decide(act)


async def _with_children(flows: LockedFlows, members: Sequence[KnownMember]) -> list[KnownMember]:
    """Return members, with all that those have added, or are the gates of, that wait for their children."""
    chosen, parents = [each.id for each in members], [each for each in members if each.waits_for_children]
    for flow in {each.flow for each in parents}:
        chosen += (await flows.graph(flow)).below([each.id for each in parents if each.flow == flow])
    return await flows.members(list(dict.fromkeys(chosen)))


async def _reopen(flows: LockedFlows, members: Sequence[KnownMember], *, is_fresh: bool) -> dict[UUID, UUID]:
    """Run finished members again with what did not complete because of them, and held or scheduled ones at once."""
    taken, finished = dict[UUID, UUID](), defaultdict[UUID, list[UUID]](list)
    waiting = [each for each in members if each.is_waiting and each.state is not State.BLOCKED and not each.is_paused]
    if waiting:
        await flows.fetch("reopen", [each.id for each in waiting], is_fresh, flows.locked)
    for flow in {each.flow for each in waiting if flows.flows[each.flow].is_paused}:
        await flows.fetch("hold_members", flow)
    for each in members:
        if not each.is_waiting and not each.is_active:
            finished[each.flow].append(each.id)
    for flow, jobs in finished.items():

        def act(plan: FlowPlan, flow: UUID = flow, jobs: Sequence[UUID] = jobs) -> None:
            root = plan.graph(flow).members.get(flow)
            if root is not None and not root.is_stub:
                for job in jobs:
                    plan.retry_member(flow, job, is_fresh=is_fresh)

        try:
            await flows.decide(act)
        except KeyTaken as other:
            taken |= dict.fromkeys(jobs, other.holder)
    return taken


def _end(plan: FlowPlan, flow: UUID, ended: Sequence[Ended], state: State, reason: Reason) -> None:
    """End waiting members of a workflow, and pass that on."""
    plan.end_waiting({each.id: (state, reason) for each in ended})
    plan.pass_on(flow, ended)
