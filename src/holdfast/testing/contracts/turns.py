"""Turns: within a priority, lanes (a queue and a key) are served one after the other, and their number does not make a claim slower."""

from collections import Counter
from collections.abc import Sequence
from math import ceil
from uuid import UUID

from holdfast._core.job import Claim
from holdfast._core.lanes import LANES, Cursor
from holdfast._core.origin import Origin
from holdfast._core.requests import ClaimKind, QueueSettings
from holdfast._core.schedule import Source
from holdfast._engine import store_defaults
from holdfast._ports.limits import Lanes
from holdfast.testing.contracts.scene import Part, Scene, done, needs, released, story


class Claimer:
    """A worker that claims as the engine does: with the cursor of its last claim, and again at once while lanes are left."""

    kind = ClaimKind.PLAIN

    def __init__(self, at: Scene, lease: UUID, tasks: Sequence[str] = ("task",)) -> None:
        self._at, self.lease, self._tasks = at, lease, tasks
        self.cursor: Cursor = ()
        self.asked = 0

    async def claim(self, room: int, *, queues: tuple[str, ...] | None = None) -> list[Claim]:
        """Claim up to ``room`` jobs."""
        found = list[Claim]()
        while True:
            wish = self._at.request(
                self.lease, room - len(found), tasks=self._tasks, queues=queues, cursor=self.cursor, kind=self.kind
            )
            answer = await self._at.store.exchange((), wish)
            found += answer.claims
            self.cursor, self.asked = answer.cursor, self.asked + 1
            if answer.is_whole or len(found) >= room:
                return found

    async def lanes(self, room: int, *, queues: tuple[str, ...] | None = None) -> list[tuple[str, str]]:
        """Claim, and return the lanes of the jobs."""
        return [(claim.job.queue, claim.key) for claim in await self.claim(room, queues=queues)]


async def refused(at: Scene) -> None:
    """Check that a store whose queues have no settings reports so."""
    assert not store_defaults.offers(at.store, Lanes)


class TurnContract(Part):
    """What a claim promises where jobs of several lanes wait."""

    @story
    async def test_queues_of_one_priority_take_turns(self, at: Scene) -> None:
        await at.enqueue(*(at.new(queue=queue) for queue in "aabbbc"))
        worker = Claimer(at, await at.lease())
        assert [(await worker.lanes(1))[0][0] for _ in range(6)] == ["a", "b", "c", "a", "b", "b"]
        assert await worker.claim(1) == []

    @story
    async def test_keys_of_a_queue_take_turns(self, at: Scene) -> None:
        await at.enqueue(*(at.new(lane=key) for key in ["acme"] * 5 + ["", "zoo", "é"]))
        worker = Claimer(at, await at.lease())
        assert [(await worker.lanes(1))[0][1] for _ in range(8)] == ["", "acme", "zoo", "é", "acme", "acme", "acme", "acme"]

    @story
    async def test_a_claim_of_several_jobs_deals_them_out_in_turns(self, at: Scene) -> None:
        await at.enqueue(*(at.new(queue=queue) for queue in "aaaaaabbbc"))
        worker = Claimer(at, await at.lease())
        assert Counter(await worker.lanes(7)) == {("a", ""): 3, ("b", ""): 3, ("c", ""): 1}
        assert Counter(await worker.lanes(7)) == {("a", ""): 3}

    @story
    async def test_the_lane_after_the_one_served_last_is_next(self, at: Scene) -> None:
        await at.enqueue(*(at.new(queue=queue) for queue in "aaabbbccc"))
        worker = Claimer(at, await at.lease())
        assert sorted(await worker.lanes(4)) == [("a", ""), ("a", ""), ("b", ""), ("c", "")]
        assert sorted(await worker.lanes(1)) == [("b", "")]
        assert sorted(await worker.lanes(2)) == [("a", ""), ("c", "")]

    @story
    async def test_a_claim_without_a_cursor_begins_with_the_first_lane(self, at: Scene) -> None:
        await at.enqueue(*(at.new(queue=queue) for queue in "aabb"))
        lease = await at.lease()
        assert [(await at.claim(lease))[0].job.queue for _ in range(3)] == ["a", "a", "b"]

    @story
    async def test_within_a_lane_the_oldest_is_first_across_tasks(self, at: Scene) -> None:
        jobs = await at.enqueue(
            *(at.new(task=task, queue=queue, delay=n * 0.001) for n, task in enumerate("abab") for queue in "xy")
        )
        at.advance(1.0)
        worker = Claimer(at, await at.lease(), "ab")
        taken = [(await worker.claim(2)) for _ in range(4)]
        assert [claim.job.id for claims in taken for claim in claims] == list(jobs)
        assert [sorted(claim.job.queue for claim in claims) for claims in taken] == [["x", "y"]] * 4

    @story
    async def test_priority_goes_before_turns_and_does_not_change_them(self, at: Scene) -> None:
        await at.enqueue(*(at.new(queue=queue) for queue in "abcabc"))
        worker = Claimer(at, await at.lease())
        taken = []
        for _ in range(3):
            await at.enqueue(at.new(queue="z", priority=-1), at.new(queue="z", priority=1))
            taken += [(await worker.lanes(1))[0][0] for _ in range(2)]
        assert taken == ["z", "a", "z", "b", "z", "c"]
        assert Counter(await worker.lanes(100)) == {(queue, ""): 3 if queue == "z" else 1 for queue in "abcz"}

    @story
    async def test_jobs_in_turn_across_priorities_fill_a_claim(self, at: Scene) -> None:
        await at.enqueue(*(at.new(queue=queue, priority=priority) for priority in (1, 0) for queue in "aab"))
        worker = Claimer(at, await at.lease())
        claims = await worker.claim(5)
        assert [(claim.priority, claim.job.queue) for claim in claims] == [(0, "a"), (0, "a"), (0, "b"), (1, "a"), (1, "b")]
        assert [claim.job.queue for claim in await worker.claim(5)] == ["a"]

    @story
    async def test_a_deep_lane_fills_a_claim_when_it_is_the_only_one(self, at: Scene) -> None:
        jobs = await at.enqueue(*(at.new() for _ in range(50)))
        worker = Claimer(at, await at.lease())
        assert [claim.job.id for claim in await worker.claim(40)] == list(jobs[:40])
        assert [claim.job.id for claim in await worker.claim(40)] == list(jobs[40:])

    @story
    async def test_a_deep_lane_fills_what_shallow_ones_leave(self, at: Scene) -> None:
        await at.enqueue(*(at.new(lane="deep") for _ in range(50)), *(at.new(lane=f"t{n:02}") for n in range(10)))
        found = Counter(await Claimer(at, await at.lease()).lanes(40))
        assert found.pop(("default", "deep")) == 30
        assert set(found.values()) == {1}

    @story
    async def test_shallow_lanes_fill_a_claim(self, at: Scene) -> None:
        await at.enqueue(*(at.new(lane=f"t{n:03}") for n in range(150)))
        worker = Claimer(at, await at.lease())
        assert [len(await worker.claim(100)) for _ in range(3)] == [100, 50, 0]

    @story
    async def test_l13_a_due_lane_is_served_within_a_round_of_claims(self, at: Scene) -> None:
        lanes = [(queue, key) for queue in "abcde" for key in ("", "k", "l", "m", "n", "o", "p", "q")]
        await at.enqueue(*(at.new(queue=queue, lane=key) for queue, key in lanes for _ in range(12)))
        worker = Claimer(at, await at.lease())
        await worker.claim(5)
        served = [await worker.lanes(32) for _ in range(ceil(len(lanes) / LANES) + 1)]
        assert {lane for taken in served for lane in taken} == set(lanes)
        assert all(len(set(taken)) >= LANES for taken in served)

    @story
    async def test_l13_a_new_lane_waits_for_one_round_of_a_worker_with_one_slot(self, at: Scene) -> None:
        await at.enqueue(*(at.new(lane=f"t{n:02}") for n in range(20) for _ in range(3)))
        worker = Claimer(at, await at.lease())
        first = [(await worker.lanes(1))[0] for _ in range(7)]
        await at.enqueue(at.new(lane="t00b"))
        rest = [(await worker.lanes(1))[0] for _ in range(21)]
        assert first == [("default", f"t{n:02}") for n in range(7)]
        assert ("default", "t00b") in rest[:15]
        assert set(Counter(rest[:20]).values()) <= {1, 2}

    @story
    async def test_l13_lanes_that_are_served_many_at_a_time_are_served_evenly(self, at: Scene) -> None:
        await at.enqueue(*(at.new(lane=f"t{n:02}") for n in range(40) for _ in range(30)))
        worker, found = Claimer(at, await at.lease()), Counter[tuple[str, str]]()
        for _ in range(15):
            found.update(await worker.lanes(40))
        assert max(found.values()) - min(found.values()) <= 3
        assert len(found) == 40

    @story
    async def test_l14_lanes_that_are_not_due_hide_no_job(self, at: Scene) -> None:
        await at.enqueue(*(at.new(queue=f"q{n:03}", delay=100.0) for n in range(300)))
        lease = await at.lease()
        worker = Claimer(at, lease)
        assert await worker.claim(5) == []
        (job,) = await at.enqueue(at.new(queue="q299b"))
        assert [claim.job.id for claim in await worker.claim(5)] == [job]
        assert worker.asked <= 20
        at.advance(100.0)
        await at.store.beat([lease])
        assert len({queue for queue, _ in [lane for _ in range(30) for lane in await worker.lanes(10)]}) == 300

    @story
    async def test_l14_a_paused_queue_of_many_keys_hides_no_job(self, at: Scene) -> None:
        await at.enqueue(*(at.new(queue="a", lane=f"t{n:03}") for n in range(200)), at.new(queue="b"))
        await at.store.pause(["a"], is_paused=True)
        worker = Claimer(at, await at.lease())
        assert await worker.lanes(5) == [("b", "")]
        assert await worker.claim(5) == []
        await at.store.pause(["a"], is_paused=False)
        assert len(await worker.claim(300)) == 200

    @story
    async def test_l14_a_worker_of_few_queues_is_served_among_many_lanes(self, at: Scene) -> None:
        await at.enqueue(*(at.new(queue=f"q{n:03}", lane=key) for n in range(100) for key in "xy"))
        worker = Claimer(at, await at.lease())
        wanted = ("q099", "none", "q017", "q017")
        assert await worker.lanes(3, queues=wanted) == [("q017", "x"), ("q017", "y"), ("q099", "x")]
        assert await worker.lanes(3, queues=wanted) == [("q099", "y")]
        assert await worker.claim(3, queues=wanted) == []

    @story
    async def test_l14_jobs_that_must_run_isolated_or_have_expired_hide_no_lane(self, at: Scene) -> None:
        await at.enqueue(*(at.new(lane=f"t{n:02}", expires_in=1.0) for n in range(70)), at.new(lane="z"))
        at.advance(2.0)
        worker = Claimer(at, await at.lease())
        assert await worker.lanes(3) == [("default", "z")]

    @story
    async def test_l10_a_job_handed_back_is_the_first_of_its_lane(self, at: Scene) -> None:
        await at.enqueue(*(at.new(lane=key) for key in "aabb"))
        worker = Claimer(at, await at.lease())
        (first,) = await worker.claim(1)
        await at.settle(released(first.job))
        assert [await worker.lanes(1), [claim.job.id for claim in await worker.claim(1)]] == [[("default", "b")], [first.job.id]]

    @story
    async def test_what_an_exchange_releases_it_can_claim_among_other_lanes(self, at: Scene) -> None:
        await at.enqueue(at.new(lane="b"), at.new(lane="b"))
        (job,) = await at.enqueue(at.new(lane="a"))
        lease = await at.lease()
        (claim,) = await at.claim(lease)
        assert claim.job.id == job
        answer = await at.exchange(released(claim.job), at.request(lease, 3))
        assert Counter(claim.key for claim in answer.claims) == {"a": 1, "b": 2}

    @story
    async def test_prefetched_jobs_go_on_round_the_ring(self, at: Scene) -> None:
        await at.enqueue(*(at.new(queue=queue) for queue in "aabbcc"))
        answer = await at.store.exchange((), at.request(await at.lease(), 2, prefetch=2))
        assert [(claim.job.queue, claim.job.state.value) for claim in answer.claims] == [
            ("a", "running"),
            ("b", "running"),
            ("a", "claimed"),
            ("c", "claimed"),
        ]

    @story
    async def test_two_workers_take_no_job_twice_and_leave_none(self, at: Scene) -> None:
        jobs = await at.enqueue(*(at.new(lane=f"t{n % 50:02}") for n in range(500)))
        workers = [Claimer(at, await at.lease()) for _ in range(2)]
        taken = [claim.job.id for _ in range(30) for worker in workers for claim in await worker.claim(10)]
        assert sorted(taken) == sorted(jobs)

    @story
    @needs(Lanes, refused)
    async def test_a_turn_of_a_lane_is_as_long_as_its_weight(self, at: Scene) -> None:
        await at.enqueue(*(at.new(queue=queue, lane=key) for queue in "ab" for key in "xy" for _ in range(20)))
        lanes = store_defaults.lanes(at.store)
        await lanes.set_queue("a", QueueSettings(weight=2, key_weights={"x": 3}))
        worker = Claimer(at, await at.lease())
        one_by_one = Counter([(await worker.lanes(1))[0] for _ in range(20)])
        assert one_by_one == {("a", "x"): 12, ("a", "y"): 4, ("b", "x"): 2, ("b", "y"): 2}
        assert Counter(await worker.lanes(20)) == {("a", "x"): 8, ("a", "y"): 6, ("b", "x"): 3, ("b", "y"): 3}
        await lanes.set_queue("a", None)
        assert Counter(await worker.lanes(12)) == {("a", "y"): 4, ("b", "x"): 4, ("b", "y"): 4}

    @story
    @needs(Lanes, refused)
    async def test_l13_a_begun_turn_ends_in_a_claim_of_more_jobs(self, at: Scene) -> None:
        await at.enqueue(*(at.new(queue=queue) for queue in "ab" for _ in range(9)))
        for queue in "ab":
            await store_defaults.lanes(at.store).set_queue(queue, QueueSettings(weight=2))
        worker = Claimer(at, await at.lease())
        assert await worker.lanes(1) == [("a", "")]
        assert ("b", "") in await worker.lanes(2) + await worker.lanes(2)

    @story
    @needs(Lanes, refused)
    async def test_the_priority_of_a_queue_is_added_to_its_jobs(self, at: Scene) -> None:
        early, held = await at.enqueue(at.new(queue="a"), at.new(queue="a", delay=5.0))
        lanes = store_defaults.lanes(at.store)
        await lanes.set_queue("a", QueueSettings(priority=-10))
        (late,) = await at.enqueue(at.new(queue="a", priority=3))
        assert [(await at.row(job)).priority for job in (early, held, late)] == [-10, -10, -7]
        (urgent,) = await at.enqueue(at.new(queue="b", priority=-8))
        worker = Claimer(at, await at.lease())
        assert [claim.job.id for claim in await worker.claim(3)] == [early, urgent, late]
        await lanes.set_queue("a", QueueSettings(priority=1))
        assert (await at.row(held)).priority == 1
        await lanes.set_queue("a", None)
        assert (await at.row(held)).priority == 0

    @story
    @needs(Lanes, refused)
    async def test_queues_are_listed_with_their_settings(self, at: Scene) -> None:
        origin, lanes = Origin(Source.CODE, ("before",)), store_defaults.lanes(at.store)
        settings = QueueSettings(priority=2, weight=3, key_weights={"acme": 4}, origin=origin)
        await lanes.set_queue("a", settings)
        await at.store.pause(["a"], is_paused=True)
        await at.enqueue(at.new(queue="b"))
        views = {view.name: view for view in await at.store.queues()}
        assert (views["a"].settings, views["a"].paused_at, views["b"].settings) == (settings, at.now, QueueSettings())
        await at.store.pause(["a"], is_paused=False)
        assert [(view.name, view.settings) for view in await at.store.queues()] == [("a", settings), ("b", QueueSettings())]
        await lanes.set_queue("a", None)
        assert [view.name for view in await at.store.queues()] == ["b"]

    @story
    @needs(Lanes, refused)
    async def test_settings_that_are_the_defaults_keep_their_origin(self, at: Scene) -> None:
        settings, lanes = QueueSettings(origin=Origin(replaced=("0123456789abcdef",))), store_defaults.lanes(at.store)
        await lanes.set_queue("a", settings)
        assert [(view.name, view.settings) for view in await at.store.queues()] == [("a", settings)]

    @story
    async def test_a_lane_that_runs_dry_and_fills_again_is_served_in_its_turn(self, at: Scene) -> None:
        await at.enqueue(*(at.new(lane=key) for key in "abcabc"))
        worker = Claimer(at, await at.lease())
        first = await worker.claim(3)
        await at.settle(*(done(claim.job) for claim in first))
        await at.enqueue(*(at.new(lane="b") for _ in range(5)))
        assert [(await worker.lanes(1))[0][1] for _ in range(5)] == ["a", "b", "c", "b", "b"]
