"""What is shown of workers: a ping is the next beat, and their history the notes of earlier ones."""

from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import LeaseView
from holdfast._core.identity import ProcessIdentity
from holdfast._core.requests import BeatNote
from holdfast._core.timing import LeaseTiming
from holdfast.cli.ping import PingReply, ask
from tests.cli.support import answer, claim, enqueue, note, run

TIMING = LeaseTiming(ttl=30.0, beat=6.0, margin=5.0)


def lease(number: int, seen: str, *, worker: str = "") -> LeaseView:
    process = ProcessIdentity("host", number)
    return LeaseView(
        id=UUID(int=number), worker=worker or f"w{number}", process=process, timing=TIMING, overdue=-1.0, seen=seen, age=1.0
    )


def pinged(read: Callable[[float], Sequence[LeaseView]], *names: str) -> list[PingReply]:
    time = [0.0]

    def pass_by(seconds: float) -> None:
        time[0] += seconds

    return ask(lambda: read(time[0]), names, now=lambda: time[0], pause=pass_by)


def test_a_worker_whose_lease_changes_has_answered_and_one_whose_does_not_is_silent() -> None:
    beating, silent = pinged(lambda now: [lease(1, "a" if now < 2.0 else "b"), lease(2, "a")])
    assert (beating.worker, beating.is_alive) == ("w1", True)
    assert 2.0 <= beating.seconds < 2.2
    assert (silent.worker, silent.is_alive) == ("w2", False)
    assert 11.0 <= silent.seconds < 11.2


def test_a_worker_that_leaves_during_the_ping_is_not_silent() -> None:
    (gone,) = pinged(lambda now: [lease(1, "a")] if now < 1.0 else [])
    assert gone.is_alive


def test_only_those_named_are_waited_for() -> None:
    answers = pinged(lambda now: [lease(1, f"{now}", worker="web-1-7"), lease(2, "a", worker="web-2-7")], "web-1-")
    assert [each.worker for each in answers] == ["web-1-7"]


def test_a_silent_worker_and_no_worker_at_all_are_failures(folder: Path) -> None:
    run("migrate", "shop")
    done = run("workers", "ping", "--app", "shop")
    assert (done.exit_code, done.stdout) == (1, "worker\tanswer\tafter\n")
    enqueue()
    claim(folder, "analyze")
    done = run("workers", "ping", "nobody", "--app", "shop", "--json")
    assert (done.exit_code, done.stdout) == (1, "[]\n")
    assert done.stderr == "no worker has the name 'nobody', or one that begins so: see `holdfast workers list --app shop`\n"


def test_workers_are_listed_with_what_they_hold_and_can_do(folder: Path) -> None:
    enqueue()
    claim(folder, "analyze", limit=3)
    (line,) = run("workers", "list", "--app", "shop").stdout.splitlines()[1:]
    assert line.split("\t")[:7] == ["elsewhere-7-0000", "alive", "1", "", "3", "default", "analyze"]


def test_the_history_of_a_worker_is_printed_newest_first(folder: Path) -> None:
    first = BeatNote(lease=UUID(int=1), kept=60.0)
    second = structs.replace(first, running=3, claimed=1, memory=300 * 2**20, loop_lag=0.0123, silence=2.0)
    note(folder, first, second, worker="elsewhere-7-0000")
    head, *lines = (
        line.split("\t") for line in run("workers", "history", "elsewhere-7-0000", "--app", "shop").stdout.splitlines()
    )
    assert head == ["at", "running", "claimed", "slots", "memory", "loop lag", "answered"]
    assert [line[1:6] for line in lines] == [["3", "1", "4", "300 MiB", "0.012 s"], ["", "", "4", "", ""]]
    (newest,) = answer("workers", "history", "elsewhere-7-0000", "--limit", "1", "--app", "shop")
    assert (newest["worker"], newest["running"], newest["memory"]) == ("elsewhere-7-0000", 3, 300 * 2**20)


def test_of_an_unknown_worker_there_is_no_history() -> None:
    done = run("workers", "history", "nobody", "--url", "memory://", "--json")
    assert (done.exit_code, done.stdout) == (0, "[]\n")
    assert done.stderr == "no worker has the name 'nobody', or one that begins so: see `holdfast workers list --url memory://`\n"


def test_the_beginning_of_one_live_workers_name_is_enough_for_its_history(folder: Path) -> None:
    note(folder, BeatNote(lease=UUID(int=1), kept=60.0), worker="elsewhere-7-0000")
    assert len(answer("workers", "history", "elsewhere", "--app", "shop")) == 1
    note(folder, BeatNote(lease=UUID(int=1), kept=60.0), worker="elsewhere-8-0000")
    done = run("workers", "history", "elsewhere", "--app", "shop")
    assert "begin so: elsewhere-7-0000, elsewhere-8-0000: use one of them" in done.stderr
