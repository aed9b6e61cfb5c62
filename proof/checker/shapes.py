"""The shape that two histories share when only the times and the interleaving of unrelated events differ."""

import hashlib
from collections import defaultdict

from proof.checker.flow_rows import FlowRow, SignalRow, StepRow
from proof.checker.history import AnyRow, Event, History, JobRow, LeaseRow, Phase, ScheduleRow, TableRow
from proof.checker.lane_rows import ClaimRow, LimitRow, QueueRow


def shape_of(history: History) -> str:
    """Return a digest of the order of events of each process, job and lease, without times; the same in any interpreter."""
    sequences: defaultdict[str, list[str]] = defaultdict(list)
    for event in history:
        if event.phase is not Phase.TRUTH:
            token = event.token and event.token.number
            sequences[event.process.rpartition("-")[0]].append(f"{event.what} {event.phase} {event.job} {token} {event.note}")
        elif not _is_renewal(event) and event.what != "written":
            sequences[str(event.job or event.lease)].append(
                f"{event.what} {event.by and event.by.verb} {_row(event.after)} {event.note}"
            )
    return hashlib.blake2b(repr(sorted(sequences.items())).encode(), digest_size=8).hexdigest()


def _is_renewal(event: Event) -> bool:
    return event.by is not None and event.by.verb == "beat" and isinstance(event.after, LeaseRow) and not event.after.is_draining


def _row(row: AnyRow | None) -> str:
    match row:
        case None:
            return ""
        case TableRow():
            return f"{row.key} {row.status}"
        case ScheduleRow():
            return f"{row.next_at} {row.last_tick} {row.is_paused}"
        case LimitRow() | QueueRow() | StepRow():
            return str(row)
        case FlowRow():
            return f"{row.is_paused} {row.ended_for}"
        case SignalRow():
            return row.name
        case ClaimRow():
            return f"{row.kind} {len(row.taken)}"
        case JobRow():
            spent = f"{row.attempt} {row.failures} {row.crashes} {row.is_cancel_requested} {row.is_owed} {row.hooks_committed}"
            return f"{row.state} {row.token.number} {row.lease} {row.reason} {spent}"
        case LeaseRow():
            return f"{row.is_ended} {row.is_free} {row.is_draining}"
