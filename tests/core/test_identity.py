"""Identities of processes, and proof that a process is dead."""

from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.identity import Look, ProcessIdentity, enqueue_call_id, is_provably_dead, may_run, worker_name

THEIRS = ProcessIdentity("web-1", 42, 1000, "boot", "pid:[1]", "time:[1]")
OURS = ProcessIdentity("web-1", 43, 2000, "boot", "pid:[1]", "time:[1]")


def test_a_process_that_does_not_exist_is_dead() -> None:
    assert is_provably_dead(THEIRS, OURS, is_running=False)
    assert not is_provably_dead(THEIRS, OURS, is_running=True)


@pytest.mark.parametrize(
    "other",
    [
        {"host": "web-2"},
        {"host": "web"},
        {"boot": "another"},
        {"pid_namespace": "pid:[2]"},
        {"host": ""},
        {"boot": ""},
        {"pid_namespace": ""},
        {"start": 0},
    ],
)
def test_nothing_is_proven_about_other_machines_or_with_anything_unknown(other: dict[str, object]) -> None:
    elsewhere = structs.replace(THEIRS, **other)
    assert not is_provably_dead(elsewhere, OURS, is_running=False)
    if "start" not in other:
        assert not is_provably_dead(THEIRS, structs.replace(OURS, **other), is_running=False)
        assert not elsewhere.shares_processes_with(structs.replace(OURS, **other)) or all(other.values())


def test_s5_a_process_that_cannot_see_the_process_table_proves_nothing() -> None:
    assert not is_provably_dead(THEIRS, structs.replace(OURS, start=0), is_running=False)


@pytest.mark.parametrize(
    ("look", "may"),
    [
        (Look(start=1000), True),
        (Look(start=1000, is_alive=False), False),
        (Look(start=1001), False),
        (Look(start=1001, is_alive=False), False),
        (Look(), True),
        (Look(has_no_process=True), True),
        (Look(has_no_entry=True), True),
        (Look(has_no_entry=True, has_no_process=True), False),
    ],
    ids=["itself", "zombie", "other", "other zombie", "unreadable", "unreadable, no signal", "hidden", "gone"],
)
def test_s5_only_an_absent_entry_and_a_signal_without_a_target_prove_that_a_process_ended(look: Look, may: bool) -> None:
    assert may_run(THEIRS, look) is may
    assert may_run(THEIRS, look, are_starts_comparable=False) is (may or (look.start is not None and look.is_alive))


def test_a_worker_is_named_by_host_pid_and_incarnation() -> None:
    names = {worker_name("web-1", 42, UUID(int=n << 96)) for n in range(3)}
    assert names == {"web-1-42-00000000", "web-1-42-00000001", "web-1-42-00000002"}


def test_ids_of_calls_grow_with_their_jobs_and_differ_by_their_random_part() -> None:
    first, later = UUID("01a1f9a0-4e06-72a9-84b8-784e0b76c9d3"), UUID("01a1f9a0-4e07-72a9-84b8-784e0b76c9d3")
    high, low = UUID(int=2**128 - 1), UUID(int=0)
    assert enqueue_call_id(first, low) < enqueue_call_id(first, high) < enqueue_call_id(later, low)
