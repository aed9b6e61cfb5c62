"""Random workflows that are damaged by hand, and what they must be after a repair, counted apart from the rules of ``_core``."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol
from uuid import UUID

from holdfast._core.answers import Answer, EnqueueAnswer
from holdfast._core.job import ActiveJob, Failed, NoResult, State
from holdfast._core.member import Input, Member, OnFailure
from holdfast._core.workflow import Edge, MemberView, NewFlow, NewMember, Repair, gate_edges
from holdfast.testing.contracts.scene import Scene, answered
from holdfast.testing.contracts.workflow_scene import COMPLETED, FAILED, verbs

FINISHED = (State.COMPLETED, State.FAILED, State.CANCELLED)
WORKFLOWS = 8
"""Workflows that are damaged together."""
PIECES = 4
"""Pieces of damage of one workflow, at most."""
LONGER_THAN_RETENTION = 8 * 86_400.0

Values = dict[UUID, tuple[State, tuple[int, int] | None]]
"""The state of each member, and the counters of a blocked one: successes that it requires, parents that have not ended."""


class Hands(Protocol):
    """What hands do to a store."""

    def set_counters(self, job: UUID, needs: int, waits: int) -> None: ...

    def block(self, job: UUID) -> None: ...

    def lose_job(self, job: UUID) -> None: ...

    def lose_member(self, job: UUID) -> None: ...

    def lose_edges(self, job: UUID) -> None: ...

    def lose_result(self, job: UUID) -> None: ...

    def lose_flow(self, flow: UUID) -> None: ...

    def left(self) -> dict[str, int]: ...


class Drawn:
    """A random workflow: how its members end when they run, and what each of them must be now."""

    def __init__(self, at: Scene, chance: random.Random) -> None:
        root = at.new(task="workflow")
        self.id = root.id
        self.gone, self.unread, self.unknown, self.undone = set[UUID](), set[UUID](), set[UUID](), set[UUID]()
        found, edges = list[NewMember](), list[Edge]()
        for number in range(chance.randint(3, 9)):
            job, parents = at.new(), chance.sample(found, min(len(found), chance.choice((0, 1, 1, 2, 3))))
            is_gate = bool(parents) and chance.random() < 0.15
            member = Member(
                flow=root.id,
                node=f"n{number}",
                join=chance.randint(1, len(parents)) if parents and not is_gate and chance.random() < 0.3 else None,
                on_failure=OnFailure.CONTINUE if chance.random() < 0.15 else OnFailure.FAIL,
                is_gate=is_gate,
                inputs=tuple(Input("x", each.job.id) for each in parents if not is_gate and chance.random() < 0.4),
            )
            edges += [Edge(each.job.id, job.id, tolerates=chance.random() < 0.2) for each in parents]
            found.append(NewMember(job, member))
        jobs = [each.job.id for each in found]
        gate = Member(flow=root.id, node="workflow", is_gate=True, inputs=(Input("", jobs[-1]),))
        edges += gate_edges(root.id, jobs, edges)
        self.new = NewFlow(root=NewMember(root, gate), members=tuple(found), edges=tuple(edges))
        self.members = {each.job.id: each.member for each in (*found, self.new.root)}
        self.fails = {job for job in jobs if chance.random() < 0.2}
        self.states = dict.fromkeys(self.members, State.BLOCKED)
        self.settle()

    def values(self) -> Values:
        """Return what each member must be now."""
        return {
            job: (state, self.counters(job) if state is State.BLOCKED else None)
            for job, state in self.states.items()
            if job not in self.gone
        }

    def story(self, found: Values) -> str:
        """Return the members that are not what they must be, and the whole graph."""
        names, wanted = {job: member.node for job, member in self.members.items()}, self.values()
        wrong = [
            f"{names[job]}: {found.get(job)}, must be {wanted.get(job)}" for job in names if found.get(job) != wanted.get(job)
        ]
        edges = [f"{names[each.parent]}→{names[each.child]}{'?' * each.tolerates}" for each in self.new.edges]
        lost = [f"{names[job]} is gone" for job in self.gone] + [f"the result of {names[job]} is gone" for job in self.unread]
        lost += [f"{names[job]} is unknown" for job in self.unknown]
        states = [f"{names[job]} {state} join {self.members[job].join}" for job, state in self.states.items()]
        return "\n".join([*wrong, *lost, " ".join(edges), *states])

    def of(self, *states: State) -> list[UUID]:
        """Return the members in these states."""
        return [job for job, state in self.states.items() if state in states and job not in self.gone]

    def end(self, job: UUID) -> None:
        """Let a member end as it does when it runs."""
        self.states[job] = State.FAILED if job in self.fails else State.COMPLETED
        self.settle()

    def play(self) -> None:
        """Let all members end."""
        while left := self.of(State.AVAILABLE, State.RUNNING):
            self.end(left[0])

    def repair(self) -> None:
        """Judge what waits again. Members without a record of what they are in their workflow fail: what they waited for is not known."""
        self.states |= dict.fromkeys(self.undone, State.BLOCKED)
        for job in self.unknown:
            parents = sum(each.child == job for each in self.new.edges)
            join = parents + 1 if self.states[job] is State.BLOCKED else None
            self.members[job] = Member(flow=self.id, node="task", join=join, is_gate=job == self.id)
        self.settle()

    def settle(self) -> None:
        """Release and end what waits for nothing any more."""
        while moved := {job: then for job in self.of(State.BLOCKED) if (then := self._verdict(job)) is not None}:
            self.states |= moved

    def counters(self, job: UUID) -> tuple[int, int]:
        """Count the successes that a member still requires, and its parents that have not ended."""
        edges, join = [each for each in self.new.edges if each.child == job], self.members[job].join
        ended = [each for each in edges if each.parent in self.gone or self.states[each.parent] in FINISHED]
        good = [each for each in ended if each.tolerates or self._is_good(each.parent, job)]
        return (len(edges) if join is None else join) - len(good), len(edges) - len(ended)

    def _verdict(self, job: UUID) -> State | None:
        needs, waits = self.counters(job)
        if self.members[job].is_gate:
            return None if waits else State.FAILED if needs > 0 else State.COMPLETED
        return State.AVAILABLE if needs <= 0 else State.FAILED if waits < needs else None

    def _is_good(self, job: UUID, child: UUID) -> bool:
        if job in self.gone:
            return False
        is_lost = job in self.unread and job in {each.parent for each in self.members[child].inputs}
        return self.members[job].on_failure is OnFailure.CONTINUE or (self.states[job] is State.COMPLETED and not is_lost)


class Damage:
    """Damage of one store; ``made``: how many pieces of each kind."""

    def __init__(self, at: Scene, hands: Hands, chance: random.Random, *, has_rows_of_members: bool = True) -> None:
        self._has_rows_of_members = has_rows_of_members
        self.made, self.repaired = Counter[str](), 0
        self._at, self._hands, self._chance = at, hands, chance
        self._kinds: list[Callable[[Drawn], str | None]] = [
            self._counters,
            self._counters,
            self._undone_release,
            self._lost_parent,
            self._lost_job,
            self._lost_member,
            self._lost_result,
            self._lost_flow,
        ]

    async def survive(self, pieces: int) -> None:
        """Damage workflows until that many pieces were made, repair each, and compare it with what it must be, to its end."""
        while self.made.total() < pieces:
            drawn = [Drawn(self._at, self._chance) for _ in range(WORKFLOWS)]
            for each in drawn:
                answer = await verbs(self._at.store).enqueue_flow(self._at.chance.uuid4(), each.new)
                assert answer == EnqueueAnswer()
            left = await self._play_partly(drawn)
            await self._is_as_expected(drawn)
            for each in drawn:
                if each.states[each.id] is State.BLOCKED:
                    self._damage(each)
                    each.repair()
            await self._repair()
            await self._is_as_expected(drawn)
            await self._play(drawn, left)
            await self._is_as_expected(drawn)
            assert {each.states[each.id] for each in drawn} <= {*FINISHED}
        self._at.advance(LONGER_THAN_RETENTION)
        while (await self._at.store.prune(100)).jobs:
            pass
        left = {table: rows for table, rows in self._hands.left().items() if rows}
        assert not left, f"what was pruned has left {left}"

    def _damage(self, drawn: Drawn) -> None:
        for _ in range(self._chance.randint(1, PIECES)):
            kind = self._chance.choice(self._kinds)(drawn)
            if kind is not None:
                self.made[kind] += 1

    def _counters(self, drawn: Drawn) -> str | None:
        if not (blocked := drawn.of(State.BLOCKED)):
            return None
        self._hands.set_counters(self._chance.choice(blocked), self._chance.randint(0, 5), self._chance.randint(0, 7))
        return "counters"

    def _undone_release(self, drawn: Drawn) -> str | None:
        if not (released := drawn.of(State.AVAILABLE)):
            return None
        job = self._chance.choice(released)
        self._hands.block(job)
        drawn.undone.add(job)
        return "undone release"

    def _lost_parent(self, drawn: Drawn) -> str | None:
        return self._lose(drawn, "lost parent", self._hands.lose_job, self._hands.lose_member, self._hands.lose_edges)

    def _lost_job(self, drawn: Drawn) -> str | None:
        return self._lose(drawn, "lost row of a job", self._hands.lose_job)

    def _lose(self, drawn: Drawn, kind: str, *acts: Callable[[UUID], None]) -> str | None:
        # With both rows of a job lost, nothing names it but the edges that lead to it: those stay when its workflow is pruned.
        if not (members := [job for job in drawn.of(*State) if job != drawn.id and job not in drawn.unknown]):
            return None
        job = self._chance.choice(members)
        for act in acts:
            act(job)
        drawn.gone.add(job)
        return kind

    def _lost_member(self, drawn: Drawn) -> str | None:
        if not self._has_rows_of_members:
            return None
        job = self._chance.choice(drawn.of(*State))
        self._hands.lose_member(job)
        drawn.unknown.add(job)
        return "lost row of a member"

    def _lost_result(self, drawn: Drawn) -> str | None:
        if not (members := [job for job in drawn.of(State.COMPLETED) if job != drawn.id]):
            return None
        job = self._chance.choice(members)
        self._hands.lose_result(job)
        drawn.unread.add(job)
        return "lost result"

    def _lost_flow(self, drawn: Drawn) -> str | None:
        self._hands.lose_flow(drawn.id)
        return "lost row of a flow"

    async def _play_partly(self, drawn: Sequence[Drawn]) -> list[ActiveJob]:
        """Run some members, and return those that still run."""
        lease, running = await self._at.lease(), list[ActiveJob]()
        owner = {job: each for each in drawn for job in each.members}
        for _ in range(self._chance.randint(0, 6)):
            for claim in await self._at.claim(lease, self._chance.randint(1, WORKFLOWS)):
                running.append(claim.job)
                owner[claim.job.id].states[claim.job.id] = State.RUNNING
            ended = self._chance.sample(running, self._chance.randint(0, len(running)))
            await self._end(owner, ended)
            running = [job for job in running if job not in ended]
        return running

    async def _play(self, drawn: Sequence[Drawn], running: Sequence[ActiveJob]) -> None:
        """Run everything to its end."""
        owner = {job: each for each in drawn for job in each.members}
        await self._end(owner, [job for job in running if job.id not in owner[job.id].gone])
        lease = await self._at.lease()
        while claims := await self._at.claim(lease, 50):
            await self._end(owner, [claim.job for claim in claims])
        for each in drawn:
            each.play()

    async def _end(self, owner: dict[UUID, Drawn], jobs: Sequence[ActiveJob]) -> None:
        if not jobs:
            return
        moves = [answered(job, FAILED if job.id in owner[job.id].fails else COMPLETED) for job in jobs]
        assert {*await self._at.settle(*moves)} == {Answer.APPLIED}
        for job in jobs:
            owner[job.id].end(job.id)

    async def _repair(self) -> None:
        """Go round once, a few workflows at a time; what a dry run would repair is what is repaired then."""
        foreseen, repaired = list[Repair](), list[Repair]()
        for repairs, is_dry in ((foreseen, True), (repaired, False)):
            after = None
            while True:
                found = await verbs(self._at.store).revive(3, after=after, dry_run=is_dry)
                repairs += found.repairs
                if found.next is None:
                    break
                assert after is None or found.next > after
                after = found.next
        assert repaired == foreseen
        self.repaired += len(repaired)

    async def _is_as_expected(self, drawn: Sequence[Drawn]) -> None:
        assert (await verbs(self._at.store).revive(WORKFLOWS * 2)).repairs == ()
        for each in drawn:
            view = await verbs(self._at.store).flow(each.id)
            assert view is not None
            found, wanted = {member.job: seen(member) for member in view.members}, each.values()
            assert found == wanted, each.story(found)
            outputs = await verbs(self._at.store).outputs([*each.gone, *each.unread])
            assert {*outputs.values()} <= {Failed(NoResult.RESULT_NOT_AVAILABLE)}
            assert len(outputs) == len(each.gone | each.unread)


def seen(member: MemberView) -> tuple[State, tuple[int, int] | None]:
    """Return the state of a member, and the counters of a blocked one."""
    return member.state, (member.member.needs, member.member.waits) if member.state is State.BLOCKED else None
