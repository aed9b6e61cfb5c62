"""Every verb of the store port is on the wire, and every error of a store comes back as itself."""

import inspect
from uuid import UUID

import msgspec
import pytest
from msgspec import structs

from holdfast import errors
from holdfast._core.flow_changes import FlowChange
from holdfast._core.job import Failed, Failure, State
from holdfast._core.policy import Backoff, Policy
from holdfast._core.requests import ClaimRequest
from holdfast._core.workflow import Items
from holdfast._ports import limits, prefetching, steps, store, wire, workflows
from holdfast._ports.wire_errors import decode_error, encode_error
from holdfast.broker.roles import ROLES
from holdfast.errors import ConfigurationError, HoldfastError, StoreBusy, StoreUnavailable, UniqueConflict
from holdfast.http.identity import Role

JOB = UUID(int=7)
OF_A_CONNECTION = {"enqueue_within", "transaction", "blocking_transaction", "enqueue_flow_within", "create_roles", "close"}
"""Verbs that belong to a connection of the caller, or to the database itself."""


def test_every_verb_of_every_protocol_is_on_the_wire() -> None:
    verbs = set[str]()
    for module in (store, limits, prefetching, steps, workflows):
        for kind in vars(module).values():
            if inspect.isclass(kind) and kind.__module__ == module.__name__:
                verbs |= {name for name, member in vars(kind).items() if inspect.isfunction(member) and name[0] != "_"}
    assert verbs - OF_A_CONNECTION - wire.VERBS.keys() == {"take_flow_changes"}  # it asks no store: answers carry its changes


def test_outcomes_of_jobs_of_each_kind_keep_their_kind() -> None:
    sent = {JOB: b"1", UUID(int=8): Failed("TIMED_OUT", Failure("E", "m")), UUID(int=9): Items((JOB,)), UUID(int=10): b""}
    verb = wire.VERBS["outputs"]
    assert verb.decode_answer(verb.encode_answer(sent)) == (sent, ())


def test_an_answer_carries_what_the_verb_did_to_workflows() -> None:
    verb, flows = wire.VERBS["start"], (FlowChange(JOB, State.FAILED),)
    assert verb.decode_answer(verb.encode_answer(frozenset((JOB,)), flows)) == (frozenset((JOB,)), flows)


def test_a_field_of_a_newer_release_is_ignored() -> None:
    body = msgspec.msgpack.encode({"job": JOB.bytes, "shade": 3})
    assert wire.VERBS["get"].decode_request(body) == ([JOB], {})


def test_wrong_arguments_are_refused_before_they_are_sent() -> None:
    with pytest.raises(TypeError, match="missing"):
        wire.VERBS["get"].bind()
    with pytest.raises(TypeError, match="unexpected"):
        wire.VERBS["get"].bind(JOB, shade=3)


def test_a_claim_is_never_sent_twice_and_a_settle_may_be() -> None:
    request = ClaimRequest(lease=JOB, claim=JOB, tasks={}, limit=1)
    exchange = wire.VERBS["exchange"]
    assert not exchange.is_repeatable(exchange.bind((), request))
    assert exchange.is_repeatable(exchange.bind(()))
    moving_another_batch = (
        "expire",
        "prune",
        "purge",
        "owed_hooks",
        "reopen",
        "steer",
        "revive",
        "advance",
        "reschedule",
        "migrate",
    )
    assert {name for name in wire.VERBS if not wire.VERBS[name].is_repeatable({})} == set(moving_another_batch)


KINDS = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, HoldfastError)]
MADE = {
    errors.ConfigurationError: ConfigurationError(["a", "b"]),
    errors.MissingExtra: errors.MissingExtra("starlette", "broker"),
    errors.InvalidCron: errors.InvalidCron(["a"]),
    errors.InvalidCursor: errors.InvalidCursor(["a"]),
    errors.UniqueConflict: UniqueConflict("taken", JOB),
    errors.JobFailed: errors.JobFailed("HANDLER_ERROR", None, ()),
    errors.RowsLost: errors.RowsLost("gone", [1]),
    errors.InsideEventLoop: errors.InsideEventLoop("aget"),
    errors.StoreDamaged: errors.StoreDamaged("malformed"),
    errors.StoreBusy: StoreBusy("locked", frozenset((JOB,)), frozenset((UUID(int=8),)), {JOB: State.HELD}),
}
NOT_OF_A_STORE = {
    errors.MissingExtra,
    errors.ResultInvalid,
    errors.InvalidCron,
    errors.InvalidCursor,
    errors.JobFailed,
    errors.RowsLost,
    errors.InsideEventLoop,
    errors.JobCancelled,
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_comes_back_as_itself(kind: type[HoldfastError]) -> None:
    error = MADE.get(kind) or kind("message")
    found = decode_error(encode_error(error))
    assert str(found) == str(error)
    assert isinstance(found, HoldfastError)
    if kind not in NOT_OF_A_STORE:
        assert type(found) is kind
        assert vars(found) == vars(error)


def test_an_error_of_a_driver_is_unknown_and_keeps_its_message_to_itself() -> None:
    found = decode_error(encode_error(OSError("password=hunter2")))
    assert type(found) is StoreUnavailable
    assert "hunter2" not in str(found)


def test_each_role_may_call_what_its_name_means() -> None:
    assert set(ROLES) == set(wire.VERBS)
    may = {role: {verb for verb in ROLES if role in ROLES[verb]} for role in Role}
    assert may[Role.VIEWER] == wire.READS
    assert {"enqueue", "get", "outputs"} <= may[Role.PRODUCER]
    assert not may[Role.PRODUCER] & {"exchange", "open_lease", "list", "delete", "reopen", "steer"}
    assert {"exchange", "beat", "end_lease", "enqueue", "set_limit", "prune", "advance"} <= may[Role.WORKER]
    assert not may[Role.WORKER] & {"delete", "purge", "pause", "steer", "reopen", "migrate"}
    assert not may[Role.OPERATOR] & {"exchange", "open_lease", "beat", "start", "migrate"}
    assert ROLES["migrate"] == frozenset()


def test_the_policy_of_a_task_survives() -> None:

    policy = Policy(backoff=Backoff.fixed("1s", "5m"), max_attempts=7, timeout=3.5)
    request = ClaimRequest(lease=JOB, claim=JOB, tasks={"t": policy}, limit=1)
    verb = wire.VERBS["exchange"]
    (_, found), _ = verb.decode_request(verb.encode_request(verb.bind((), request)))
    assert found == structs.replace(request, tasks={"t": policy})
