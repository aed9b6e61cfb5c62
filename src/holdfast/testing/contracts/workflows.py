"""Workflows: members wait for each other, are released once, and end with what they depend on."""

import asyncio

from msgspec import structs

from holdfast._core.answers import Answer, Duplicate, EnqueueAnswer
from holdfast._core.job import Failed, Reason, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.member import Input, OnFailure
from holdfast._core.outcome import Done, Retry
from holdfast._core.policy import Policy
from holdfast._ports.workflows import Workflows
from holdfast.errors import HoldfastError
from holdfast.testing.contracts.scene import Part, Scene, answered, done, needs, rescued, story
from holdfast.testing.contracts.workflow_scene import COMPLETED, FAILED, Graph, chain, no_workflows, verbs

AVAILABLE, BLOCKED = State.AVAILABLE, State.BLOCKED
DONE, LOST, CANCELLED = State.COMPLETED, State.FAILED, State.CANCELLED
CRASH = LeaseEnd(RescueReason.CRASHED, "SIGKILL")


class WorkflowContract(Part):
    """What is promised to jobs that wait for other jobs."""

    @story
    @needs(Workflows, no_workflows)
    async def test_s18_a_member_is_available_only_when_its_join_is_satisfied(self, at: Scene) -> None:
        graph = await Graph(at).add("a").add("b").add("both", "a", "b").add("any", "a", "b", join=1).stored()
        assert await graph.states("a", "b", "both", "any", "root") == [AVAILABLE, AVAILABLE, BLOCKED, BLOCKED, BLOCKED]
        assert {claim.job.id for claim in await at.claim(await at.lease(), 0, prefetch=9)} == {graph.ids["a"], graph.ids["b"]}
        graph = await Graph(at).add("a").add("b").add("both", "a", "b").add("any", "a", "b", join=1).stored()
        await graph.run("a")
        assert await graph.states("both", "any") == [BLOCKED, AVAILABLE]
        await graph.run("b")
        assert await graph.states("both", "any") == [AVAILABLE, AVAILABLE]

    @story
    @needs(Workflows, no_workflows)
    async def test_s18_an_answer_that_comes_again_releases_nothing_twice(self, at: Scene) -> None:
        graph = await Graph(at).add("a").add("b").add("c").add("two", "a", "b", "c", join=2).stored()
        (first,) = await graph.run("a")
        for _ in range(3):
            assert await at.settle(first) == (Answer.APPLIED,)
        assert await graph.states("two") == [BLOCKED]
        await graph.run("b")
        (job,) = await graph.start("two")
        assert await at.settle(first) == (Answer.APPLIED,)
        await graph.run("c")
        assert (await at.state(graph.ids["two"]), (await at.row(job.id)).token) == (State.RUNNING, job.token)

    @story
    @needs(Workflows, no_workflows)
    async def test_s18_an_answer_under_a_lost_token_releases_nothing(self, at: Scene) -> None:
        graph = await chain(at, "a", "b").stored()
        (job,) = await graph.start("a")
        await at.store.end_lease(job.lease, CRASH)
        assert await at.settle(rescued(job, CRASH)) == (Answer.APPLIED,)
        assert await at.settle(done(job)) == (Answer.LOST,)
        assert await graph.states("a", "b") == [AVAILABLE, BLOCKED]

    @story
    @needs(Workflows, no_workflows)
    async def test_s18_a_blocked_job_is_neither_reopened_nor_claimed_nor_expired(self, at: Scene) -> None:
        graph = await Graph(at).add("a").add("b", "a", expires_in=5.0).stored()
        at.advance(9.0)
        assert await at.store.expire(9) == ()
        assert (await at.store.reopen([graph.ids["b"], graph.ids["root"]])).states == {
            graph.ids["b"]: BLOCKED,
            graph.ids["root"]: BLOCKED,
        }
        assert await at.claim(await at.lease(), 9, ids=[graph.ids["b"], graph.ids["root"]]) == ()

    @story
    @needs(Workflows, no_workflows)
    async def test_s19_two_parents_that_end_in_one_write_release_their_child(self, at: Scene) -> None:
        graph = await Graph(at).add("a").add("b").add("c", "a", "b").stored()
        jobs = await graph.start("a", "b")
        assert await at.settle(*map(done, jobs)) == (Answer.APPLIED, Answer.APPLIED)
        assert await graph.states("c") == [AVAILABLE]

    @story
    @needs(Workflows, no_workflows)
    async def test_s19_two_parents_that_end_at_once_release_their_child_once(self, at: Scene) -> None:
        first, second = at.another(), at.another()
        for _ in range(10):
            graph = await Graph(at).add("a").add("b").add("c", "a", "b").add("d", "a", "b", join=1).stored()
            one, two = await graph.start("a", "b")
            await asyncio.gather(first.exchange([done(one)]), second.exchange([done(two)]))
            assert await graph.states("c", "d", "root") == [AVAILABLE, AVAILABLE, BLOCKED]
            await graph.run("c", "d")
            assert await graph.root() is DONE

    @story
    @needs(Workflows, no_workflows)
    async def test_s19_a_settle_that_also_claims_takes_what_it_releases(self, at: Scene) -> None:
        graph = await chain(at, "a", "b").stored()
        (job,) = await graph.start("a")
        answer = await at.exchange(done(job), at.request(job.lease, ids=[graph.ids["b"]]))
        assert [claim.job.id for claim in answer.claims] == [graph.ids["b"]]

    @story
    @needs(Workflows, no_workflows)
    async def test_s19_a_failure_ends_all_that_depends_on_it_in_the_same_write(self, at: Scene) -> None:
        graph = await chain(at, *"abcde").stored()
        await graph.fail("a")
        assert await graph.states() == [LOST] * 6
        rows = [await at.row(graph.ids[name]) for name in (*"bcde", "root")]
        assert {row.reason for row in rows} == {Reason.DEPENDENCY_FAILED}
        assert [str(row.error) for row in rows] == [f"DependencyFailed: {name} did not complete" for name in "abcda"]

    @story
    @needs(Workflows, no_workflows)
    async def test_s19_every_way_to_end_is_passed_on(self, at: Scene) -> None:
        graph = await Graph(at).add("late", expires_in=5.0).add("a", "late").add("stopped").add("b", "stopped").stored()
        at.advance(6.0)
        assert [each.job for each in await at.store.expire(9)] == [graph.ids["late"]]
        assert await at.store.request_cancel([graph.ids["stopped"]]) == {graph.ids["stopped"]: CANCELLED}
        assert await graph.states("a", "b", "root") == [LOST, LOST, LOST]
        graph = await chain(at, "a", "b").stored()
        (job,) = await graph.start("a")
        await at.store.end_lease(job.lease, CRASH)
        spent = rescued(structs.replace(job, policy=Policy(max_crashes=1)), CRASH)
        assert await at.settle(spent) == (Answer.APPLIED,)
        assert await graph.states("a", "b", "root") == [LOST, LOST, LOST]

    @story
    @needs(Workflows, no_workflows)
    async def test_s19_a_dependent_may_run_after_a_failure(self, at: Scene) -> None:
        graph = Graph(at).add("a").add("b", "a", tolerates=True).add("c", on_failure=OnFailure.CONTINUE).add("d", "c")
        await graph.stored()
        await graph.fail("a", "c")
        assert await graph.states("b", "d") == [AVAILABLE, AVAILABLE]
        await graph.run("b", "d")
        assert await graph.root() is DONE

    @story
    @needs(Workflows, no_workflows)
    async def test_l12_a_workflow_ends_when_nothing_of_it_runs(self, at: Scene) -> None:
        graph = await Graph(at).add("a").add("b").add("c", "a", "b").stored()
        await graph.fail("a")
        assert await graph.states("c", "root") == [LOST, BLOCKED]
        await graph.run("b")
        row = await at.row(graph.ids["root"])
        assert (row.state, row.reason, str(row.error)) == (LOST, Reason.DEPENDENCY_FAILED, "DependencyFailed: a did not complete")

    @story
    @needs(Workflows, no_workflows)
    async def test_l12_a_workflow_without_members_has_completed(self, at: Scene) -> None:
        graph = await Graph(at).stored()
        row = await at.row(graph.ids["root"])
        assert (row.state, row.finished_at) == (DONE, at.now)

    @story
    @needs(Workflows, no_workflows)
    async def test_l12_a_retried_attempt_keeps_its_dependents_waiting(self, at: Scene) -> None:
        graph = await chain(at, "a", "b").stored()
        await graph.run("a", outcome=Retry(after="0s"))
        assert await graph.states() == [BLOCKED, AVAILABLE, BLOCKED]
        await graph.run("a", "b")
        assert await graph.root() is DONE

    @story
    @needs(Workflows, no_workflows)
    async def test_l12_an_error_names_the_first_three_that_did_not_complete(self, at: Scene) -> None:
        graph = Graph(at)
        for name in ("q", "r", "s", "t"):
            graph.add(name)
        await graph.stored()
        for name in ("t", "r", "q", "s"):
            await graph.fail(name)
            at.advance(1.0)
        assert (await graph.error("root")).message == "t, r, q and 1 more did not complete"

    @story
    @needs(Workflows, no_workflows)
    async def test_a_released_member_is_due_from_its_release_on(self, at: Scene) -> None:
        graph = await chain(at, "a", "b").stored()
        at.advance(100.0)
        (before,) = await at.enqueue(at.new())
        at.advance(1.0)
        await graph.run("a")
        row = await at.row(graph.ids["b"])
        assert (row.available_at, row.created_at) == (at.now, (await at.row(graph.ids["root"])).created_at)
        claims = await at.claim(await at.lease(), 2)
        assert [claim.job.id for claim in claims] == [before, graph.ids["b"]]

    @story
    @needs(Workflows, no_workflows)
    async def test_s10_the_call_that_stores_a_workflow_can_be_sent_again(self, at: Scene) -> None:
        graph, call = chain(at, "a", "b"), at.chance.uuid4()
        for _ in range(2):
            assert await verbs(at.store).enqueue_flow(call, graph.new()) == EnqueueAnswer()
        await graph.run("a")
        assert await verbs(at.store).enqueue_flow(call, graph.new()) == EnqueueAnswer()
        assert await graph.states() == [BLOCKED, DONE, AVAILABLE]

    @story
    @needs(Workflows, no_workflows)
    async def test_s10_a_workflow_that_cannot_be_stored_whole_leaves_nothing(self, at: Scene) -> None:
        known, *_ = await at.enqueue(at.new(payload=b"[1]"))
        graph, error = chain(at, "a", "b"), ""
        new = graph.new()
        first, last = new.members
        taken = structs.replace(last, job=structs.replace(last.job, id=known))
        try:
            await verbs(at.store).enqueue_flow(at.chance.uuid4(), structs.replace(new, members=(first, taken)))
        except HoldfastError as refused:
            error = str(refused)
        assert "each job needs its own id" in error
        assert [each.id for each in await at.store.list(at.everything)] == [known]
        assert await verbs(at.store).flow(graph.ids["root"]) is None
        assert (await at.row(known)).payload == b"[1]"
        await graph.stored()

    @story
    @needs(Workflows, no_workflows)
    async def test_s11_one_unfinished_workflow_has_a_unique_key(self, at: Scene) -> None:
        first = await Graph(at, key="k").add("a").stored()
        for payload, is_same in ((b"{}", True), (b'{"a":1}', False)):
            second = Graph(at, key="k", payload=payload).add("a")
            answer = await verbs(at.store).enqueue_flow(at.chance.uuid4(), second.new())
            assert answer == EnqueueAnswer({second.ids["root"]: Duplicate(first.ids["root"], is_same)})
            assert await at.store.get(second.ids["a"]) is None
        await first.run("a")
        await Graph(at, key="k").add("a").stored()

    @story
    @needs(Workflows, no_workflows)
    async def test_s21_inputs_are_the_outcomes_of_the_last_attempts_of_the_parents(self, at: Scene) -> None:
        graph = Graph(at).add("a", on_failure=OnFailure.CONTINUE).add("b", on_failure=OnFailure.CONTINUE)
        await graph.add("c", "a", "b", takes=["a", "b"]).stored(result="c")
        await graph.run("a", outcome=Retry(after="0s"))
        assert await verbs(at.store).outputs([graph.ids["a"]]) == {}
        await graph.run("a", outcome=Done(b"[1]"))
        await graph.fail("b")
        claims = await at.claim(await at.lease(), ids=[graph.ids["c"]])
        assert claims[0].inputs == (Input("a", graph.ids["a"]), Input("b", graph.ids["b"]))
        found = dict(await verbs(at.store).outputs([each.parent for each in claims[0].inputs]))
        failed = found.pop(graph.ids["b"])
        assert found == {graph.ids["a"]: b"[1]"}
        assert claims[0].results in ((), (b"[1]", None))
        assert isinstance(failed, Failed)
        assert (failed.reason, failed.error is not None and failed.error.message) == (Reason.PERMANENT, "no")
        await at.settle(answered(claims[0].job, Done(b"[2]")))
        assert await verbs(at.store).outputs([graph.ids["root"]]) == {graph.ids["root"]: b"[2]"}
        await at.store.reopen([graph.ids["b"]])
        await graph.run("b", outcome=Done(b"[3]"))
        assert await verbs(at.store).outputs([graph.ids["b"]]) == {graph.ids["b"]: b"[3]"}

    @story
    @needs(Workflows, no_workflows)
    async def test_s21_a_workflow_that_failed_has_no_result_of_its_member(self, at: Scene) -> None:
        graph = await Graph(at).add("a").add("b").stored(result="a")
        await graph.run("a")
        root = graph.ids["root"]
        assert await verbs(at.store).outputs([root]) == {}
        await graph.fail("b")
        failed = (await verbs(at.store).outputs([root]))[root]
        assert isinstance(failed, Failed)
        assert failed.reason == Reason.DEPENDENCY_FAILED

    @story
    @needs(Workflows, no_workflows)
    async def test_s21_an_outcome_that_is_not_recorded_is_a_failure(self, at: Scene) -> None:
        graph, unknown = await chain(at, "a").stored(), at.chance.uuid7()
        await at.store.request_cancel([graph.ids["a"]])
        found = await verbs(at.store).outputs([graph.ids["a"], unknown])
        assert found == {graph.ids["a"]: Failed("TASK_CANCELLED"), unknown: Failed("RESULT_NOT_AVAILABLE")}

    @story
    @needs(Workflows, no_workflows)
    async def test_a_workflow_is_read_with_all_its_members(self, at: Scene) -> None:
        graph = await Graph(at).add("a").add("b", "a", join=1, tolerates=True).stored()
        await graph.run("a")
        view = await verbs(at.store).flow(graph.ids["root"])
        assert view is not None
        assert (view.flow.id, view.flow.is_paused) == (graph.ids["root"], False)
        assert [(each.member.node, each.state, each.attempt) for each in view.members] == [
            ("a", DONE, 1),
            ("b", AVAILABLE, 0),
            ("workflow", BLOCKED, 0),
        ]
        assert view.members[1].parents == (graph.ids["a"],)
        assert set(view.members[2].parents) == {graph.ids["a"], graph.ids["b"]}
        assert (view.members[2].member.needs, view.members[2].member.waits) == (1, 1)
        assert await verbs(at.store).flow(graph.ids["a"]) is None

    @story
    @needs(Workflows, no_workflows)
    async def test_plain_jobs_beside_a_workflow_are_settled_with_it(self, at: Scene) -> None:
        graph = await chain(at, "a", "b").stored()
        (member,), plain = await graph.start("a"), await at.running()
        late = answered(member, FAILED)
        assert await at.settle(done(plain), answered(member, COMPLETED), late) == (Answer.APPLIED, Answer.APPLIED, Answer.LOST)
        assert (await at.state(plain.id), await graph.states("b")) == (DONE, [AVAILABLE])
