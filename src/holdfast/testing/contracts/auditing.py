"""Audit: what an operator does is recorded in its own write, once, with how much it changed."""

from collections.abc import Awaitable, Callable
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.audit import AUDIT_RETENTION, AuditEntry, AuditFilter, AuditNote
from holdfast._core.job import RescueReason
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.limits import Limit, Scope, ScopeKind
from holdfast._core.origin import Origin
from holdfast._core.requests import JobFilter, QueueSettings, Steer, SteerVerb
from holdfast._core.workflow import FlowVerb, SteerFlow
from holdfast._engine import store_defaults
from holdfast._ports.auditing import Auditing
from holdfast.errors import HoldfastError, Unsupported
from holdfast.testing.contracts.scene import EARLY, Part, Scene, done, needs, story
from holdfast.testing.contracts.scheduling import written
from holdfast.testing.contracts.workflow_scene import Graph

ANY = JobFilter(limit=10)


async def refused(at: Scene) -> None:
    """Check that a store that remembers no actions is known as such."""
    try:
        store_defaults.auditing(at.store)
    except Unsupported:
        return
    raise AssertionError("a store that remembers no actions offers them")


def note(at: Scene, action: str = "retry", *, who: str = "anna", reason: str | None = None) -> AuditNote:
    """Make an action with its first write."""
    ids = at.chance.uuid7(), at.chance.uuid4()
    return AuditNote(id=ids[0], write=ids[1], who=who, origin="api", action=action, selector='{"queue":"a"}', reason=reason)


async def listed(at: Scene, **which: object) -> tuple[AuditEntry, ...]:
    """Return the recorded actions."""
    return await store_defaults.auditing(at.store).audits(AuditFilter(**which))  # type: ignore[arg-type]


async def counts(at: Scene) -> list[int]:
    """Return how much each action changed, oldest first."""
    return [entry.count for entry in reversed(await listed(at))]


async def steer(at: Scene, verb: SteerVerb, *jobs: UUID, by: AuditNote | None = None) -> None:
    """Do something to jobs as an operator."""
    how = Steer(verb, 50.0 if verb is SteerVerb.RESCHEDULE else 0.0)
    await store_defaults.selectors(at.store).steer(how, jobs, ANY, by=by or note(at))


class AuditContract(Part):
    """What is promised about the actions of operators."""

    @story
    @needs(Auditing, refused)
    async def test_an_action_is_recorded_as_it_was_given_with_the_time_of_its_first_write(self, at: Scene) -> None:
        (job,) = await at.enqueue(at.new())
        by = structs.replace(note(at, "cancel", reason="too\x00many \ud800"), up_to="2026-11-28", who="ännä \ud800")
        await steer(at, SteerVerb.CANCEL, job, by=by)
        (entry,) = await listed(at)
        assert (entry.id, entry.origin, entry.action) == (by.id, "api", "cancel")
        assert (entry.selector, entry.up_to, entry.count) == ('{"queue":"a"}', "2026-11-28", 1)
        assert entry.who.startswith("ännä")
        assert (entry.reason or "").startswith("too")
        assert await listed(at, who="\ud800") == ()
        assert abs((entry.at - (await at.row(job)).created_at).total_seconds()) < 60.0

    @story
    @needs(Auditing, refused)
    async def test_the_count_is_that_of_the_jobs_the_verb_changed(self, at: Scene) -> None:
        first, second = await at.enqueue(at.new(), at.new())
        ended = await at.running()
        await at.settle(done(ended))
        running = await at.running()
        jobs = (first, second, ended.id, running.id, at.chance.uuid7())
        for verb in (SteerVerb.RESCHEDULE, SteerVerb.REOPEN, SteerVerb.CANCEL, SteerVerb.CANCEL, SteerVerb.DELETE):
            await steer(at, verb, *jobs)
        assert await counts(at) == [2, 3, 4, 0, 3]
        await steer(at, SteerVerb.DELETE)
        assert (await counts(at))[5:] == [0]

    @story
    @needs(Auditing, refused)
    async def test_the_writes_of_one_action_add_up_and_a_copy_of_the_last_one_adds_nothing(self, at: Scene) -> None:
        jobs, by = await at.enqueue(at.new(), at.new(), at.new()), note(at)
        await steer(at, SteerVerb.RESCHEDULE, *jobs[:2], by=by)
        at.advance(1.0)
        await steer(at, SteerVerb.RESCHEDULE, *jobs[:2], by=by)
        assert await counts(at) == [2]
        await steer(at, SteerVerb.RESCHEDULE, jobs[2], by=structs.replace(by, write=at.chance.uuid4()))
        assert await counts(at) == [3]

    @story
    @needs(Auditing, refused)
    async def test_a_purge_and_a_pause_are_recorded_also_if_they_change_nothing(self, at: Scene) -> None:
        await at.enqueue(at.new(queue="a"), at.new(queue="a"), at.new(queue="b"))
        verbs = store_defaults.queue_verbs(at.store)
        for _ in range(2):
            await verbs.purge("a", 10, by=note(at, "purge"))
        await store_defaults.lanes(at.store).set_queue("a", QueueSettings(weight=2))
        await at.store.pause(["other"], is_paused=True)
        for is_paused in (True, True, False, False):
            await at.store.pause(["a", "b", "a"], is_paused=is_paused, by=note(at, "pause"))
        assert await counts(at) == [2, 0, 2, 0, 2, 0]

    @story
    @needs(Auditing, refused)
    async def test_settings_of_limits_queues_and_schedules_are_recorded(self, at: Scene) -> None:
        await written(at)
        scope, verbs = Scope(ScopeKind.QUEUE, "a"), store_defaults.scheduling(at.store)
        acts: list[Callable[[AuditNote], Awaitable[object]]] = [
            lambda by: store_defaults.limits(at.store).set_limit(scope, Limit(concurrency=1), Origin(), by=by),
            lambda by: store_defaults.limits(at.store).set_limit(scope, None, Origin(), by=by),
            lambda by: store_defaults.limits(at.store).set_limit(scope, None, Origin(), by=by),
            lambda by: store_defaults.lanes(at.store).set_queue("a", QueueSettings(weight=2), by=by),
            lambda by: verbs.remove_schedule("s", by=by),
            lambda by: verbs.remove_schedule("s", by=by),
        ]
        for act in acts:
            await act(note(at))
        assert await counts(at) == [1, 1, 0, 1, 1, 0]
        assert await store_defaults.limits(at.store).limits() == ()

    @story
    @needs(Auditing, refused)
    async def test_a_job_that_an_operator_enqueues_is_recorded_once_also_if_the_answer_is_lost(self, at: Scene) -> None:
        job, call, by = at.new(), at.chance.uuid4(), note(at, "schedule.run")
        verbs = store_defaults.auditing(at.store)
        for _ in range(2):
            assert await verbs.enqueue_by(call, [job], by) == EnqueueAnswer()
        assert (await at.row(job.id)).task == job.task
        assert await counts(at) == [1]

    @story
    @needs(Auditing, refused)
    async def test_an_action_that_fails_leaves_no_row(self, at: Scene) -> None:
        schedule = await written(at)
        stale = structs.replace(schedule, version=schedule.version + 1)
        assert not await store_defaults.scheduling(at.store).set_schedule(stale, at.chance.uuid4(), by=note(at))
        (known,) = await at.enqueue(at.new())
        try:
            await store_defaults.auditing(at.store).enqueue_by(at.chance.uuid4(), [structs.replace(at.new(), id=known)], note(at))
        except HoldfastError:
            assert await listed(at) == ()
        else:
            raise AssertionError("two jobs of one id")

    @story
    @needs(Auditing, refused)
    async def test_steering_a_workflow_is_recorded_and_an_unknown_one_is_not(self, at: Scene) -> None:
        verbs, how = store_defaults.workflows(at.store), SteerFlow(verb=FlowVerb.PAUSE)
        graph = await Graph(at).add("a").stored()
        assert await verbs.steer_flow(graph.ids["root"], how, by=note(at, "workflow.pause")) is not None
        assert await verbs.steer_flow(at.chance.uuid7(), how, by=note(at, "workflow.pause")) is None
        assert await counts(at) == [1]
        await steer(at, SteerVerb.CANCEL, graph.ids["root"])
        assert await counts(at) == [1, 1]

    @story
    @needs(Auditing, refused)
    async def test_a_drain_is_recorded_and_that_of_a_lease_that_has_ended_is_not(self, at: Scene) -> None:
        lease, verbs = await at.lease(), store_defaults.draining(at.store)
        for _ in range(2):
            await verbs.request_drain(lease, by=note(at, "drain"))
        await at.store.end_lease(lease, LeaseEnd(RescueReason.CRASHED))
        for gone in (lease, at.chance.uuid4()):
            await verbs.request_drain(gone, by=note(at, "drain"))
        assert await counts(at) == [1, 0]

    @story
    @needs(Auditing, refused)
    async def test_an_action_that_writes_nothing_else_is_recorded_and_adds_up(self, at: Scene) -> None:
        verbs, by = store_defaults.auditing(at.store), note(at, "reset")
        for write in (by.write, by.write, at.chance.uuid4()):
            await verbs.record_action(structs.replace(by, write=write), 3)
        await verbs.record_action(note(at, "reveal"), 0)
        assert await counts(at) == [6, 0]

    @story
    @needs(Auditing, refused)
    async def test_actions_are_listed_newest_first_by_page_person_and_action(self, at: Scene) -> None:
        made = [note(at, action, who=who) for who in ("anna", "ben") for action in ("pause", "resume")]
        for by in made:
            await at.store.pause(["a"], is_paused=True, by=by)
        newest_first = [by.id for by in reversed(made)]
        assert [entry.id for entry in await listed(at)] == newest_first
        assert [entry.id for entry in await listed(at, limit=2)] == newest_first[:2]
        assert [entry.id for entry in await listed(at, limit=2, before=newest_first[1])] == newest_first[2:]
        assert [entry.id for entry in await listed(at, who="anna", action="resume")] == [made[1].id]

    @story
    @needs(Auditing, refused)
    async def test_an_action_is_pruned_once_its_retention_is_over_and_not_before(self, at: Scene) -> None:
        await at.store.pause(["a"], is_paused=True, by=note(at))
        at.advance(AUDIT_RETENTION - 60.0)
        await at.store.pause(["b"], is_paused=True, by=note(at))
        await at.store.prune(10)
        assert len(await listed(at)) == 2
        at.advance(60.0 + EARLY)
        await at.store.prune(10)
        assert len(await listed(at)) == 1
