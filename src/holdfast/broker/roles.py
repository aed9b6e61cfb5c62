"""Which roles may call which verb of the store."""

from collections.abc import Mapping
from typing import Final

from holdfast._ports.wire import READS, VERBS
from holdfast.http.identity import Role

_PRODUCING = frozenset(
    ("enqueue", "enqueue_flow", "enqueue_after", "get", "flow", "outputs", "signal", "job_with_key", "request_cancel")
)
_OPERATING = frozenset(
    (
        *("reopen", "reschedule", "delete", "steer", "purge", "pause", "set_queue", "set_limit", "set_schedule"),
        *("remove_schedule", "steer_flow", "revive", "prune", "enqueue_by", "request_drain", "record_action"),
    )
)
_ALSO_WORKING = frozenset(("set_queue", "set_limit", "set_schedule", "revive", "prune"))
"""What supervisors do for the tasks that their workers declare, and for all jobs."""
_OWNING = frozenset(("migrate",))


def roles_of(verb: str) -> frozenset[Role]:
    """Return the roles that may call a verb, beside ``ADMIN``."""
    if verb in _OWNING:
        return frozenset()
    found = {Role.OPERATOR} if verb in READS | _OPERATING | _PRODUCING else set[Role]()
    if verb not in _OPERATING or verb in _ALSO_WORKING:
        found.add(Role.WORKER)
    if verb in READS:
        found.add(Role.VIEWER)
    if verb in _PRODUCING:
        found.add(Role.PRODUCER)
    return frozenset(found)


ROLES: Final[Mapping[str, frozenset[Role]]] = {verb: roles_of(verb) for verb in VERBS}
