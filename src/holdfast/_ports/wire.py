"""The wire between a remote store and its broker: a request and an answer for every verb of the store port.

Both are generated from the signatures of the protocols, so that there is no second list of verbs that could differ from the first.
Unknown fields are ignored, because the other side may be of a newer release.
"""

import inspect
from collections.abc import Mapping
from typing import Any, Final, get_type_hints
from uuid import UUID

import msgspec
from msgspec import Struct

from holdfast._core.flow_changes import FlowChange
from holdfast._core.job import Failed
from holdfast._core.text import encodable
from holdfast._core.workflow import Items, Output
from holdfast._ports.auditing import Auditing
from holdfast._ports.draining import Draining
from holdfast._ports.errors import Errors
from holdfast._ports.estimating import Estimates
from holdfast._ports.history import History
from holdfast._ports.limits import Lanes, Limits
from holdfast._ports.prefetching import Prefetching
from holdfast._ports.steps import Steps
from holdfast._ports.store import (
    Administration,
    Operating,
    Ownership,
    QueueVerbs,
    Reading,
    Republishing,
    RescueHooks,
    Scheduling,
    Selectors,
    WorkerHistory,
)
from holdfast._ports.vitals import HasVitals
from holdfast._ports.workflows import DependentJobs, GrowingWorkflows, Workflows

VERSION: Final = 1
"""It changes when one side can no longer read what the other one writes."""
PATH: Final = f"/port/v{VERSION}/"
HEADER: Final = "Holdfast-Wire"
"""The header of every answer of a broker; an answer without it comes from another server."""
CONTENT_TYPE: Final = "application/msgpack"
MOST_BYTES: Final = 64 * 2**20
"""The largest request that a broker reads."""

REQUIRED = (Ownership, Reading, Operating, Administration)
OPTIONAL = (
    *(
        Selectors,
        QueueVerbs,
        Republishing,
        RescueHooks,
        Scheduling,
        WorkerHistory,
        Errors,
        Estimates,
        Auditing,
        History,
        Draining,
        HasVitals,
    ),
    *(Lanes, Limits, Prefetching, Steps, Workflows, GrowingWorkflows, DependentJobs),
)
READS: Final = frozenset(
    (
        *("held", "expired", "overdue", "next_due", "get", "list", "counts", "workers", "queues", "check", "waiting_tasks"),
        *(
            "due",
            "schedules",
            "ticks",
            "worker_history",
            "limits",
            "steps",
            "job_with_key",
            "outputs",
            "flow",
            "errors",
            "estimates",
            "audits",
            "minutes",
            "vitals",
        ),
    )
)
"""The verbs that change nothing."""
_REPEATED = frozenset(
    (
        *("enqueue", "start", "report", "annotate", "open_lease", "beat", "end_lease", "request_cancel", "delete"),
        *("pause", "set_schedule", "remove_schedule", "set_queue", "set_limit", "start_through", "void", "record_step"),
        *(
            "take_signal",
            "signal",
            "enqueue_flow",
            "enqueue_member",
            "enqueue_after",
            "steer_flow",
            "enqueue_by",
            "record_minutes",
        ),
        *("request_drain", "record_action"),
    )
)
"""The writes whose second copy, sent at once, changes nothing more and gets the same answer."""


class Verb:
    """One verb on the wire."""

    def __init__(self, name: str, member: Any) -> None:
        self.name = name
        hints = get_type_hints(member)
        answer = hints.pop("return")
        self.signature = inspect.signature(member).replace(return_annotation=inspect.Signature.empty)
        given = [each for each in self.signature.parameters.values() if each.name in hints]
        fields = [(each.name, hints[each.name], *_default(each)) for each in given]
        self._positional = [each.name for each in given if each.kind is each.POSITIONAL_OR_KEYWORD]
        self._named = [each.name for each in given if each.kind is each.KEYWORD_ONLY]
        self._request = msgspec.defstruct(name, fields, kw_only=True, omit_defaults=True)
        self._is_outputs = answer == Mapping[UUID, Output]
        value = dict[UUID, _Recorded] if self._is_outputs else answer
        self._answer = msgspec.defstruct(f"{name}_answer", [("value", value), ("flows", tuple[FlowChange, ...], ())])
        self._requests, self._answers = msgspec.msgpack.Decoder(self._request), msgspec.msgpack.Decoder(self._answer)

    def is_repeatable(self, request: Mapping[str, Any]) -> bool:
        """Return whether a client may send this call again although the first copy may have arrived.

        Not a claim: a second copy would claim a second batch, which no worker knows of.
        """
        return self.name in READS or self.name in _REPEATED or (self.name == "exchange" and request.get("request") is None)

    def bind(self, *arguments: Any, **keywords: Any) -> dict[str, Any]:
        """Return the arguments of a call by name. Raises ``TypeError`` as the verb itself would."""
        bound = self.signature.bind(None, *arguments, **keywords).arguments
        return {name: bound[name] for name in (*self._positional, *self._named) if name in bound}

    def encode_request(self, request: Mapping[str, Any]) -> bytes:
        """Encode the arguments of a call; a character that UTF-8 cannot encode becomes a question mark, as in every store."""
        sent = self._request(**request)
        try:
            return _ENCODER.encode(sent)
        except UnicodeEncodeError:
            return _ENCODER.encode(encodable(sent))

    def decode_request(self, body: bytes) -> tuple[list[Any], dict[str, Any]]:
        """Return the positional and the named arguments of a call. Raises ``msgspec.MsgspecError`` if they do not fit."""
        request = self._requests.decode(body)
        return [getattr(request, each) for each in self._positional], {
            each: value for each in self._named if (value := getattr(request, each)) is not None or each != "by"
        }

    def encode_answer(self, value: Any, flows: tuple[FlowChange, ...] = ()) -> bytes:
        """Encode what the verb returned. ``flows``: what it did to whole workflows."""
        sent = {job: _recorded(output) for job, output in value.items()} if self._is_outputs else value
        return _ENCODER.encode(self._answer(sent, flows))

    def decode_answer(self, body: bytes) -> tuple[Any, tuple[FlowChange, ...]]:
        """Return what the verb returned, and what it did to whole workflows. Raises ``msgspec.MsgspecError`` if it does not fit."""
        answer: Any = self._answers.decode(body)
        value, flows = answer.value, answer.flows
        return ({job: each.output for job, each in value.items()} if self._is_outputs else value), flows


class _Recorded(Struct, frozen=True, omit_defaults=True):
    """An ``Output`` as it is sent: msgspec cannot tell the members of that union apart."""

    result: bytes | None = None
    failed: Failed | None = None
    items: Items | None = None

    @property
    def output(self) -> Output:
        found = self.result if self.result is not None else self.failed or self.items
        return b"null" if found is None else found


def _recorded(output: Output) -> _Recorded:
    match output:
        case Failed():
            return _Recorded(failed=output)
        case Items():
            return _Recorded(items=output)
        case _:
            return _Recorded(result=output)


def _default(parameter: inspect.Parameter) -> tuple[Any, ...]:
    return () if parameter.default is parameter.empty else (parameter.default,)


_ENCODER = msgspec.msgpack.Encoder(uuid_format="bytes")

VERBS: Final[Mapping[str, Verb]] = {
    name: Verb(name, member)
    for protocol in (*REQUIRED, *OPTIONAL)
    for name, member in vars(protocol).items()
    if inspect.iscoroutinefunction(member) and name != "close"
}
"""All verbs that are sent, by name. Transactions are not: they belong to a connection of the caller's own."""
