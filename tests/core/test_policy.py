"""Backoffs, and the budgets and limits of a policy."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast._core.policy import RETENTION_FLOOR, Backoff, CrashPolicy, Policy, policy_of

BACKOFFS = st.one_of(
    st.builds(Backoff.exponential, st.floats(0, 100), st.floats(0, 1e5), spread=st.floats(0, 1)),
    st.builds(Backoff.linear, st.floats(0, 100), st.floats(0, 1e5), spread=st.floats(0, 1)),
    st.lists(st.floats(0, 1e5), min_size=1, max_size=5).map(lambda delays: Backoff.fixed(*delays, spread=0.1)),
)


def test_exponential_doubles_up_to_its_cap() -> None:
    backoff = Backoff.exponential("1s", cap="10s")
    assert [backoff.delay(n, jitter=0.0) for n in range(6)] == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_linear_adds_up_to_its_cap() -> None:
    backoff = Backoff.linear("2s", cap="5s")
    assert [backoff.delay(n, jitter=0.0) for n in range(4)] == [2.0, 4.0, 5.0, 5.0]


def test_a_list_is_followed_and_its_last_repeats() -> None:
    backoff = Backoff.fixed("1s", "1m")
    assert [backoff.delay(n, jitter=1.0) for n in range(3)] == [1.0, 60.0, 60.0]
    with pytest.raises(ValueError, match="at least one"):
        Backoff.fixed()


def test_jitter_spreads_a_quarter_to_both_sides() -> None:
    backoff = Backoff.exponential("8s")
    assert [backoff.delay(0, jitter=jitter) for jitter in (-1.0, 0.0, 1.0)] == [6.0, 8.0, 10.0]


@given(backoff=BACKOFFS, n=st.integers(0, 10_000), jitter=st.floats(-1, 1))
def test_no_wait_is_negative_endless_or_far_beyond_its_cap(backoff: Backoff, n: int, jitter: float) -> None:
    assert 0.0 <= backoff.delay(n, jitter=jitter) <= backoff.cap * (1.0 + backoff.spread) + 1e-9


@given(backoff=BACKOFFS, on_crash=st.sampled_from(CrashPolicy), budget=st.integers(1, 99))
def test_a_policy_is_read_as_it_was_written(backoff: Backoff, on_crash: CrashPolicy, budget: int) -> None:
    policy = Policy(max_attempts=budget, max_crashes=budget, backoff=backoff, on_crash=on_crash, retention=1.5)
    assert msgspec.json.decode(msgspec.json.encode(policy), type=Policy) == policy


def test_wrong_budgets_are_named() -> None:
    assert Policy().problems() == []
    problems = Policy(max_attempts=0, max_crashes=0, retention=-1.0).problems()
    assert [problem.split("=")[0] for problem in problems] == ["max_attempts", "max_crashes", "retention"]


def test_wrong_limits_are_named() -> None:
    assert Policy(progress_within=5.0, timeout=5.0).problems() == []
    assert Policy(progress_within=5.0).problems() == Policy(timeout=5.0).problems() == []
    problems = Policy(progress_within=0.0, timeout=-1.0).problems()
    assert [problem.split("=")[0] for problem in problems[:2]] == ["progress_within", "timeout"]
    (problem,) = Policy(progress_within=60.0, timeout=59.0).problems()
    assert problem.startswith("timeout >= progress_within is broken: 59s, 60s")


@pytest.mark.parametrize(
    ("max_crashes", "crashes", "is_last"),
    [(3, 0, False), (3, 1, False), (3, 2, True), (3, 3, True), (2, 0, False), (2, 1, True), (1, 0, False), (1, 1, True)],
)
def test_an_isolated_attempt_is_one_after_a_crash_with_one_crash_left(max_crashes: int, crashes: int, is_last: bool) -> None:
    assert Policy(max_crashes=max_crashes).needs_isolation(crashes) is is_last


def test_limits_are_read_as_they_were_written_and_are_written_only_if_set() -> None:
    policy = Policy(progress_within=1.5, timeout=2.5)
    assert msgspec.json.decode(msgspec.json.encode(policy), type=Policy) == policy
    assert msgspec.json.encode(Policy()) == b"{}"


def test_a_finished_job_is_kept_for_at_least_a_quarter_of_an_hour() -> None:
    assert RETENTION_FLOOR == 15 * 60


FULL = Policy(
    max_attempts=5,
    max_crashes=2,
    backoff=Backoff.fixed("1s", "2s"),
    on_crash=CrashPolicy.FAIL,
    retention=60.0,
    progress_within=30.0,
    timeout=90.0,
    has_rescue_hook=True,
)
SAFEST = {"on_crash": CrashPolicy.HOLD, "has_rescue_hook": True}


@pytest.mark.parametrize("field", [field.name for field in msgspec.structs.fields(Policy)])
@pytest.mark.parametrize(
    "rubbish", ["[7]", '"a word of a later release"', '{"kind": "fixed", "delays": []}', "-7", "1e999", "1e300", "null"]
)
def test_s16_an_unreadable_policy_field_gets_its_safest_value_and_changes_no_other_field(field: str, rubbish: str) -> None:
    written = {**msgspec.json.decode(msgspec.json.encode(FULL)), field: msgspec.Raw(rubbish.encode())}
    read = policy_of(msgspec.json.encode(written).decode())
    default = getattr(Policy(), field)
    assert getattr(read, field) == SAFEST.get(field, default)
    assert msgspec.structs.replace(read, **{field: getattr(FULL, field)}) == FULL
    assert read.problems() == []


@pytest.mark.parametrize("text", ["", "{", "7", "[]", '"retry"', b"\xff\xfe", b"\xff", "[" * 100_000])
def test_s16_a_job_whose_policy_cannot_be_read_at_all_is_held_when_its_worker_dies(text: str | bytes) -> None:
    assert policy_of(text) == Policy(on_crash=CrashPolicy.HOLD, has_rescue_hook=True)


def test_a_policy_is_read_as_it_was_written_and_nothing_written_is_the_default() -> None:
    assert policy_of(msgspec.json.encode(FULL)) == FULL
    assert policy_of(None) == policy_of("{}") == Policy()
    assert policy_of('{"a field of a later release": 7, "max_crashes": 1}') == Policy(max_crashes=1)
