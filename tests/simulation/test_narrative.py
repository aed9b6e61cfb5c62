"""Stories of violations, word by word: a reader who does not know the code must understand them."""

import asyncio
import re
from pathlib import Path
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import AttemptOutcome, NewJob, RescueReason, State, Token
from holdfast._core.lifecycle import LeaseEnd, finish, release
from holdfast._core.outcome import Done
from holdfast._core.policy import Policy
from holdfast._core.requests import ClaimRequest, NewLease
from holdfast._core.timing import LeaseTiming
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast.stores.sqlite import database
from holdfast.stores.sqlite.store import SqliteStore
from proof.checker import history_sqlite
from proof.checker.checker import check
from proof.checker.history import FAIL_OVER, By, Event, History, Phase
from proof.checker.verdicts import Rules
from proof.report.aliases import Aliases
from proof.report.sentences import LONGEST
from tests.simulation.hand_made_histories import (
    CALL,
    CHILD,
    FIRST,
    JOB,
    LEASE,
    NO_CLAIM,
    OTHER,
    OTHER_LEASE,
    SECOND,
    WORKER,
    Tale,
)

CLIENT, BOSS = "c-1-1", "s-1-1"
TWIN = Token(UUID(int=13), 1)
"""A claim with the number of the first one."""
OPEN = Rules(is_complete=False)
TOKEN_CHECK = re.compile(r"\w+\.claim_id = settle\.claim_id AND \w+\.claim_number = settle\.claim_number AND")
STORIES = Path(__file__).parent / "stories"
CLIENTS, OURS, THEIRS = (ProcessIdentity("host", number, 1, "boot", "pid", "clock") for number in (1, 2, 3))


def claimed() -> Tale:
    """A client has enqueued the job, and a worker has claimed and started it."""
    tale = Tale().job(By("enqueue"), CLIENT).say("enqueue", Phase.OK, CLIENT, job=JOB)
    return tale.lease().claim()


def overslept() -> Tale:
    """The worker is frozen until its lease has ended; another one claims the job; then the first one thaws."""
    tale = claimed().say("process.freeze", Phase.LIFE).later(31).end_lease(by=BOSS, overdue=1.1, is_judged=True)
    tale = tale.rescue(process=BOSS).lease(OTHER_LEASE, OTHER).claim(SECOND, OTHER_LEASE, OTHER)
    return tale.later(9).say("process.thaw", Phase.LIFE)


def nameless(tale: Tale) -> Tale:
    """The history as a database records it: without writers, rights and calls."""
    kept = [event for event in tale.events if event.phase in (Phase.TRUTH, Phase.LIFE)]
    rows = {"job": {"process": "", "by": None}, "lease": {"process": ""}}
    begun = Event(time=0.0, process=WORKER, what="process.start", phase=Phase.LIFE)
    tale.events = [begun, *(structs.replace(event, **rows.get(event.what, {})) for event in kept)]
    return tale


def unlucky(failures: int) -> Tale:
    """The job fails that often; then an outcome of its first attempt arrives again."""
    tale = claimed()
    for number in range(1, failures + 1):
        assert tale.row is not None
        token, following = tale.row.token, Token(UUID(int=100 + number), number + 1)
        tale.row = structs.replace(tale.row, policy=Policy(max_attempts=99))
        back = {"state": State.AVAILABLE, "lease": None, "token": Token(None, number), "failures": number}
        tale.life("handler.end", token).settle(token, record=AttemptOutcome.FAILED, **back).claim(following)
    return tale.life("handler.end", tale.row.token).settle(FIRST)


def fails_over(tale: Tale) -> Tale:
    """The store forgets the claim."""
    return tale.job(By(FAIL_OVER), "store", state=State.AVAILABLE, token=NO_CLAIM, lease=None, attempt=0)


TALES = {
    "a zombie is obeyed": (OPEN, overslept().life("handler.end", FIRST).settle(FIRST, result=str(FIRST))),
    "a zombie is obeyed, as a database records it": (
        OPEN,
        nameless(overslept().life("handler.end", FIRST).settle(FIRST, result=str(FIRST))),
    ),
    "progress of a zombie is written": (OPEN, overslept().job(By("report", FIRST), witness=str(FIRST))),
    "a refused zombie goes on, and both run": (
        OPEN,
        overslept()
        .say("report", Phase.FAIL, job=JOB, token=FIRST)
        .answer(Phase.FAIL, "completed", note="lost")
        .life("handler.effect", FIRST)
        .life("handler.effect", FIRST),
    ),
    "a zombie that was refused once is obeyed then": (
        OPEN,
        nameless(overslept().say("write.refused", Phase.LIFE, job=JOB).job(By("report", FIRST), witness=str(FIRST))),
    ),
    "a lease ends too early": (OPEN, claimed().end_lease(by=BOSS, overdue=-12.5, is_judged=True)),
    "a lease ends too early, without a job": (
        OPEN,
        Tale().lease().later(12).end_lease(by=BOSS, overdue=-17.9, is_judged=True),
    ),
    "a lease of the living ends": (OPEN, claimed().end_lease(by=BOSS, overdue=-12.5)),
    "an answer is lost, and the same settle is denied": (
        OPEN,
        claimed()
        .life("handler.end", FIRST)
        .settle()
        .answer(Phase.UNKNOWN, "completed")
        .answer(Phase.FAIL, "completed", note="lost"),
    ),
    "a job is left behind": (Rules(), claimed().say("process.end", Phase.LIFE, note="SIGKILL").later(40).calm()),
    "a cancellation is confirmed and forgotten": (
        OPEN,
        claimed().say("request_cancel", Phase.INVOKE, "o-1-1", job=JOB).say("request_cancel", Phase.OK, "o-1-1", job=JOB),
    ),
    "a fail-over gives a number twice": (
        OPEN,
        fails_over(claimed()).lease(OTHER_LEASE, OTHER).claim(TWIN, OTHER_LEASE, OTHER).settle(FIRST),
    ),
    "a child comes too late": (OPEN, overslept().other(CHILD, By("enqueue", FIRST, call=CALL, parent=JOB))),
    "a supervisor asks too often": (
        Rules(is_complete=False, calls=(1.0, 1.0)),
        Tale()
        .say("process.start", Phase.LIFE, BOSS, note="supervisor")
        .say("process.cut", Phase.LIFE, BOSS)
        .later(8)
        .say("process.connect", Phase.LIFE, BOSS, note="90 8.0"),
    ),
    "it has failed often": (OPEN, unlucky(9)),
}


@pytest.mark.parametrize("name", TALES)
def test_a_story_describes_that(name: str) -> None:
    rules, tale = TALES[name]
    assert tale.check(rules).explain(History(tale.events)) == expected(name)


def expected(name: str) -> str:
    """The story, as a person has read and approved it."""
    return (STORIES / f"{name.replace(' ', '_').replace(',', '')}.txt").read_text().rstrip("\n")


def test_each_story_is_short() -> None:
    assert all(len(story.read_text().splitlines()) <= LONGEST + 7 for story in STORIES.iterdir())


def test_the_story_in_the_documents_is_one_of_these() -> None:
    page = Path(__file__).parents[2] / "docs/proof-methods.md"
    assert f"```text\n{expected('a zombie is obeyed')}\n```" in page.read_text()


def test_a_correct_history_has_no_story() -> None:
    assert claimed().check(OPEN).explain(History()) == ""


def test_names_are_given_in_the_order_in_which_they_are_read() -> None:
    cast = Aliases(claimed().lease(OTHER_LEASE, OTHER).events, [JOB])
    asked_first, read_first = cast.process(WORKER), cast.whose(OTHER)
    story, legend = cast.render(f"the lease of {read_first}, then {asked_first}, then {cast.process(OTHER)}")
    assert story == "the lease of A, then worker B, then worker A"
    assert legend == f"worker A is {OTHER}, worker B is {WORKER}"


async def late_copy(path: Path) -> None:
    """A worker releases its job and ends; another one has it when a late copy of the first one's result arrives."""
    store = SqliteStore(path, clock=SystemClock(), chance=SystemRandomness(), process=CLIENTS)
    await store.migrate()
    history_sqlite.watch(path)
    await store.enqueue(CALL, [NewJob(id=JOB, task="task", payload=b"{}", policy=Policy())])
    history_sqlite.tell(path, "enqueue", JOB, None, CLIENTS)
    owned = []
    for lease, claim, process in ((LEASE, FIRST.claim, OURS), (OTHER_LEASE, SECOND.claim, THEIRS)):
        assert claim is not None
        await store.open_lease(NewLease(lease, "worker", process, LeaseTiming.of("30s")))
        answer = await store.exchange([], ClaimRequest(lease=lease, claim=claim, tasks={"task": Policy()}, limit=1))
        owned += [each.job for each in answer.claims]
        history_sqlite.tell(path, "handler.start", JOB, owned[-1].token, process)
        if lease == LEASE:
            history_sqlite.tell(path, "handler.end", JOB, owned[0].token, process)
            await store.exchange([release(owned[0], code_ran=True)])
            await store.end_lease(lease, LeaseEnd(RescueReason.CLOSED, is_free=True))
    await store.exchange([finish(owned[0], Done(f'"{owned[0].token}"'.encode()), jitter=0.0)])
    await store.close()


def test_the_story_of_a_guard_missing_in_the_sql_needs_no_knowledge_of_the_sql(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(late_copy(tmp_path / "whole.db"))
    assert check(history_sqlite.read(tmp_path / "whole.db"), OPEN).explain(History()) == ""
    exchange = database.QUERIES["exchange"]
    unguarded = [TOKEN_CHECK.sub("", program) for program in exchange.programs]
    assert unguarded != exchange.programs
    monkeypatch.setattr(exchange, "programs", unguarded)
    asyncio.run(late_copy(tmp_path / "broken.db"))
    history = history_sqlite.read(tmp_path / "broken.db")
    story = re.sub(r"^ +[0-9.]+ s  ", "      t s  ", check(history, OPEN).explain(history), flags=re.MULTILINE)
    assert story == expected("a late copy of a result is accepted")
