"""Start, report, annotate: what an owner writes while it holds a job, and after."""

from datetime import UTC, datetime

from msgspec import structs

from holdfast._core.job import ActiveJob, Failure, RescueReason, State, Token
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.policy import Policy
from holdfast._core.record import AttemptRecord
from holdfast._core.requests import AttemptNote, ProgressUpdate
from holdfast.testing.contracts.scene import BOOM, Part, Scene, done, raised, released, rescued, stale, story

CRASH = LeaseEnd(RescueReason.CRASHED)
POINTS = '[[1.0,0.1,"clone"],[2.5,0.7,"count ä"],"commit 7"]'


def update_of(
    job: ActiveJob,
    *,
    stage: str | None = None,
    fraction: float | None = None,
    message: str | None = None,
    checkpoint: bytes | None = None,
) -> ProgressUpdate:
    """Make the report of its handler."""
    update = ProgressUpdate(job=job.id, token=job.token, stage=stage, fraction=fraction, message=message)
    return structs.replace(update, checkpoint=checkpoint)


def wrong(job: ActiveJob, at: Scene) -> list[Token]:
    """List tokens that are not its token."""
    return [stale(job.token), stale(job.token, -1), Token(at.chance.uuid4(), job.token.number), Token(None, job.token.number)]


class ReportContract(Part):
    """What start, report and annotate promise."""

    @story
    async def test_a_prefetched_job_starts_once(self, at: Scene) -> None:
        job = await at.prefetched()
        at.advance(2.0)
        assert await at.store.start([(job.id, job.token)]) == frozenset()
        row, now = await at.row(job.id), datetime.fromtimestamp(at.clock.wall(), UTC)
        assert (row.state, row.attempt, row.started_at, row.token) == (State.RUNNING, 1, now, job.token)
        at.advance(2.0)
        assert await at.store.start([(job.id, job.token)]) == frozenset()
        assert await at.row(job.id) == row

    @story
    async def test_only_the_owner_starts_a_job(self, at: Scene) -> None:
        running = await at.running()
        for token in wrong(running, at):
            assert await at.store.start([(running.id, token)]) == {running.id}
        job = await at.prefetched()
        for token in wrong(job, at):
            assert await at.store.start([(job.id, token)]) == {job.id}
        unknown = at.chance.uuid7()
        assert await at.store.start([(unknown, job.token)]) == {unknown}
        assert await at.state(job.id) is State.CLAIMED
        await at.settle(released(job))
        assert await at.store.start([(job.id, job.token)]) == {job.id}
        assert await at.state(job.id) is State.AVAILABLE

    @story
    async def test_nothing_starts_under_a_lease_that_has_ended(self, at: Scene) -> None:
        job, other = await at.prefetched(), await at.prefetched()
        running = await at.running()
        for lease in (job.lease, running.lease):
            await at.store.end_lease(lease, CRASH)
        tokens = [(each.id, each.token) for each in (job, other, running)]
        assert await at.store.start(tokens) == {job.id, running.id}
        assert [await at.state(each.id) for each in (job, other)] == [State.CLAIMED, State.RUNNING]

    @story
    async def test_a_report_that_arrives_after_a_later_one_changes_nothing(self, at: Scene) -> None:
        job, other = await at.running(), await at.running()

        def nth(order: int | None, what: str) -> ProgressUpdate:
            return structs.replace(update_of(job, stage=what, message=what, checkpoint=what.encode()), order=order)

        assert await at.store.report([nth(2, "second")]) == frozenset()
        later = await at.row(job.id)
        at.advance(1.0)
        first = structs.replace(update_of(job, stage="first", fraction=0.1, message="first", checkpoint=b"first"), order=1)
        assert await at.store.report([first, structs.replace(update_of(other, stage="other"), order=1)]) == frozenset()
        assert await at.row(job.id) == later
        assert (await at.row(other.id)).stage == "other"
        assert await at.store.report([nth(None, "numberless")]) == frozenset()
        assert (await at.row(job.id)).checkpoint == b"numberless"
        assert await at.store.report([first]) == frozenset()
        assert (await at.row(job.id)).checkpoint == b"numberless"
        assert await at.store.report([nth(2, "second once more")]) == frozenset()
        assert (await at.row(job.id)).checkpoint == b"second once more"

    @story
    async def test_the_next_attempt_counts_its_reports_from_the_start(self, at: Scene) -> None:
        job = await at.running()
        await at.store.report([structs.replace(update_of(job, checkpoint=b"1"), order=7)])
        await at.settle(released(job))
        (again,) = await at.claim(await at.lease())
        job = again.job
        await at.store.report([structs.replace(update_of(job, checkpoint=b"2"), order=1)])
        assert (await at.row(job.id)).checkpoint == b"2"

    @story
    async def test_progress_and_checkpoints_are_on_the_row(self, at: Scene) -> None:
        job = await at.running()
        at.advance(1.0)
        update = update_of(job, stage="clone", fraction=0.25, message="half of half", checkpoint=b'{"next": 1}')
        assert await at.store.report([update]) == frozenset()
        row, now = await at.row(job.id), datetime.fromtimestamp(at.clock.wall(), UTC)
        assert (row.stage, row.fraction, row.message, row.checkpoint) == ("clone", 0.25, "half of half", b'{"next": 1}')
        assert row.last_progress_at == now
        assert (row.state, row.token) == (State.RUNNING, job.token)

    @story
    async def test_the_points_of_an_attempt_go_from_the_row_to_its_record(self, at: Scene) -> None:
        """Each attempt has its own points; a job that is taken from a worker shows its supervisor how far it was."""
        job = await at.running()
        others = await at.running()
        await at.store.report([structs.replace(update_of(job, fraction=0.5), points="[[1.0,0.1],null]", order=1)])
        await at.store.report([structs.replace(update_of(job, fraction=0.7), points=POINTS, order=2)])
        await at.store.report([structs.replace(update_of(job, fraction=0.6), points="[[1.0,0.6],null]", order=1)])
        await at.store.report([update_of(others, message="without points")])
        assert ((await at.row(job.id)).points, (await at.row(others.id)).points) == (POINTS, None)
        assert {each.id: each.fraction for each in await at.store.held(job.lease)}.get(job.id) == 0.7

        await at.settle(raised(job))
        row = await at.row(job.id)
        assert (row.points, row.fraction, [each.points for each in row.attempts]) == (None, 0.7, [POINTS])

        first_try = await at.running()
        await at.store.report([structs.replace(update_of(first_try, fraction=0.7), points=POINTS)])
        await at.settle(done(first_try))
        row = await at.row(first_try.id)
        assert (row.points, row.attempts) == (POINTS, ())
        stopped = await at.running()
        await at.store.report([structs.replace(update_of(stopped, fraction=0.7), points=POINTS)])
        await at.store.request_cancel([stopped.id])
        await at.settle(raised(stopped))
        assert (await at.row(stopped.id)).points == POINTS
        await at.store.reopen([first_try.id])
        row = await at.row(first_try.id)
        assert (row.points, [each.points for each in row.attempts]) == (None, [POINTS])

    @story
    async def test_a_rescue_has_the_progress_of_the_attempt_that_it_ends(self, at: Scene) -> None:
        """The row keeps the fraction of the attempt before: it does not count for one that has reported nothing."""
        job = await at.running(policy=Policy(max_crashes=9, timeout=30.0))
        await at.store.report([structs.replace(update_of(job, fraction=0.7), points=POINTS)])
        at.advance(1000)
        await at.store.beat([job.lease])
        assert [each.job.fraction for each in await at.store.overdue(9)] == [0.7]
        await at.store.end_lease(job.lease, CRASH)
        await at.settle(rescued(job, CRASH))
        row = await at.row(job.id)
        assert row.rescue is not None
        assert (row.rescue.fraction, row.fraction, row.attempts[0].points) == (0.7, 0.7, POINTS)

        (claim,) = await at.claim(await at.lease(), policy=Policy(max_crashes=9, timeout=30.0))
        assert [each.fraction for each in await at.store.held(claim.job.lease)] == [None]
        at.advance(1000)
        await at.store.beat([claim.job.lease])
        assert [each.job.fraction for each in await at.store.overdue(9)] == [None]
        await at.store.end_lease(claim.job.lease, CRASH)
        await at.settle(rescued(claim.job, CRASH))
        row = await at.row(job.id)
        assert row.rescue is not None
        assert (row.rescue.fraction, [each.points for each in row.attempts]) == (None, [POINTS, None])

    @story
    async def test_what_is_not_reported_stays_and_the_latest_wins(self, at: Scene) -> None:
        job = await at.running()
        await at.store.report([update_of(job, stage="clone", checkpoint=b"1")])
        at.advance(1.0)
        await at.store.report(
            [update_of(job, fraction=0.1), update_of(job, stage="walk", fraction=0.2), update_of(job, message="")]
        )
        row = await at.row(job.id)
        assert (row.stage, row.fraction, row.message, row.checkpoint) == ("walk", 0.2, "", b"1")
        at.advance(1.0)
        await at.store.report([update_of(job)])
        after = await at.row(job.id)
        assert (after.stage, after.fraction, after.message, after.checkpoint) == ("walk", 0.2, "", b"1")
        assert after.last_progress_at == datetime.fromtimestamp(at.clock.wall(), UTC)

    @story
    async def test_a_report_without_the_token_changes_nothing_and_others_land(self, at: Scene) -> None:
        job, other = await at.running(), await at.running()
        before = await at.row(job.id)
        stolen = [structs.replace(update_of(job, stage="stolen", checkpoint=b"0"), token=token) for token in wrong(job, at)]
        for update in stolen:
            assert await at.store.report([update]) == {job.id}
        unknown = structs.replace(update_of(job, stage="x"), job=at.chance.uuid7())
        assert await at.store.report([*stolen, unknown, update_of(other, stage="fine")]) == {job.id, unknown.job}
        assert await at.row(job.id) == before
        assert (await at.row(other.id)).stage == "fine"

    @story
    async def test_nothing_is_reported_on_a_job_that_has_moved(self, at: Scene) -> None:
        for move in (done, raised):
            job = await at.running()
            await at.settle(move(job))
            before = await at.row(job.id)
            assert await at.store.report([update_of(job, stage="late", checkpoint=b"0")]) == {job.id}
            assert await at.row(job.id) == before

    @story
    async def test_a_zombie_reports_until_its_job_has_moved_and_never_after(self, at: Scene) -> None:
        job = await at.running()
        await at.store.end_lease(job.lease, CRASH)
        assert await at.store.report([update_of(job, stage="mine")]) == frozenset()
        await at.settle(rescued(job, CRASH))
        (claim,) = await at.claim(await at.lease())
        assert await at.store.report([update_of(job, stage="zombie", checkpoint=b"0")]) == {job.id}
        row = await at.row(job.id)
        assert (row.stage, row.checkpoint, row.token) == ("mine", None, claim.job.token)

    @story
    async def test_a_prefetched_job_may_be_reported_on(self, at: Scene) -> None:
        job = await at.prefetched()
        assert await at.store.report([update_of(job, checkpoint=b"1")]) == frozenset()
        assert (await at.row(job.id)).checkpoint == b"1"

    @story
    async def test_checkpoints_come_back_byte_for_byte(self, at: Scene) -> None:
        job = await at.running()
        for checkpoint in (b"", b'"\\u0000"', "ä🎁".encode(), b"x" * 65_536):
            assert await at.store.report([update_of(job, checkpoint=checkpoint, stage="ä'\n🎁", message="%s :x")]) == frozenset()
            row = await at.row(job.id)
            assert (row.checkpoint, row.stage, row.message) == (checkpoint, "ä'\n🎁", "%s :x")

    @story
    async def test_a_late_result_is_kept_on_the_record_of_its_attempt(self, at: Scene) -> None:
        job = await at.running()
        await at.store.end_lease(job.lease, CRASH)
        await at.settle(rescued(job, CRASH))
        (claim,) = await at.claim(await at.lease())
        await at.settle(raised(claim.job))
        before = await at.row(job.id)
        await at.store.annotate([AttemptNote(job=job.id, token=job.token, late_result=b'"late"', error=BOOM, stacks="…")])
        row = await at.row(job.id)
        first, second = row.attempts
        assert (first.late_result, first.error, first.stacks) == (b'"late"', BOOM, "…")
        assert second == before.attempts[1]
        assert structs.replace(row, attempts=before.attempts) == before

    @story
    async def test_notes_fill_in_and_take_nothing_away(self, at: Scene) -> None:
        job = await at.running()
        await at.settle(raised(job))
        note = AttemptNote(job=job.id, token=job.token, late_result=b"1", stacks="a", error=Failure("Other", "later"))
        await at.store.annotate([note, AttemptNote(job=job.id, token=job.token)])
        await at.store.annotate([AttemptNote(job=job.id, token=job.token, stacks="b")])
        await at.store.annotate([AttemptNote(job=job.id, token=job.token, error=Failure("Other", "again"))])
        (record,) = (await at.row(job.id)).attempts
        assert (record.late_result, record.stacks, record.error) == (b"1", "b", BOOM)

    @story
    async def test_the_record_of_an_attempt_names_its_rescuer_and_when_a_late_answer_came(self, at: Scene) -> None:
        job = await at.running()
        await at.store.end_lease(job.lease, CRASH)
        await at.settle(rescued(job, CRASH, by="supervisor wéb-1-42"))
        await at.store.annotate([AttemptNote(job=job.id, token=job.token, stacks="s")])
        (before,) = (await at.row(job.id)).attempts
        assert (before.rescued_by, before.late_at) == ("supervisor wéb-1-42", None)
        at.advance(2.0)
        found = list[AttemptRecord]()
        for note in (
            AttemptNote(job=job.id, token=job.token, error=BOOM),
            AttemptNote(job=job.id, token=job.token, late_result=b"1"),
        ):
            await at.store.annotate([note])
            found += (await at.row(job.id)).attempts
            at.advance(2.0)
        first, second = found
        assert first == structs.replace(before, error=BOOM, late_at=first.late_at)
        assert before.ended_at is not None
        assert first.late_at is not None
        assert before.ended_at <= first.late_at
        assert second == structs.replace(first, late_result=b"1")

    @story
    async def test_a_note_for_no_record_is_nothing(self, at: Scene) -> None:
        job, free = await at.running(), await at.prefetched()
        await at.settle(raised(job), released(free))
        rows = [await at.row(each.id) for each in (job, free)]
        notes = [AttemptNote(job=job.id, token=token, late_result=b"1") for token in wrong(job, at)]
        notes += [AttemptNote(job=at.chance.uuid7(), token=job.token, late_result=b"1")]
        notes += [AttemptNote(job=free.id, token=free.token, late_result=b"1")]
        for asked in (notes, *([note] for note in notes)):
            await at.store.annotate(asked)
            assert [await at.row(each.id) for each in (job, free)] == rows

    @story
    async def test_a_settle_is_recognised_after_an_error_was_noted(self, at: Scene) -> None:
        job = await at.running()
        await at.store.end_lease(job.lease, CRASH)
        await at.settle(rescued(job, CRASH))
        await at.store.annotate([AttemptNote(job=job.id, token=job.token, error=BOOM)])
        assert [answer.value for answer in await at.settle(rescued(job, CRASH), raised(job))] == ["applied", "lost"]
