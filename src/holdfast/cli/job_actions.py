"""``holdfast jobs cancel | retry | reschedule | delete``: some by id, or many at once by selector."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click
from msgspec import Struct

from holdfast._core.job import State
from holdfast._core.requests import FITTING, MEANT, Steer, SteerVerb
from holdfast.cli.audit import audited
from holdfast.cli.ids import jobs_of
from holdfast.cli.options import DURATION, INSTANT, JSON, store_options
from holdfast.cli.remedies import here
from holdfast.cli.selection import SHOWN, Selection, choosing, confirm, in_batches

if TYPE_CHECKING:
    from holdfast.app import App

Act = Callable[[Sequence[UUID]], dict[UUID, State]]

WAITING = (State.SCHEDULED, State.AVAILABLE, State.BLOCKED, State.HELD)
OWNED = (State.CLAIMED, State.RUNNING)


class JobAction(Struct, frozen=True, kw_only=True):
    """One command: its words, the states that a selector without a state looks at, and how it names the states it leaves jobs in."""

    name: str
    verb: SteerVerb
    doing: str
    states: tuple[State, ...] = ()
    state_names: Mapping[State, str] = {}
    absent: str = "unknown"
    refused: tuple[State, ...] = ()


_CANCEL = JobAction(
    name="cancel",
    verb=SteerVerb.CANCEL,
    doing="cancelling",
    states=(*WAITING, *OWNED),
    state_names={State.CLAIMED: "claimed, asked to end", State.RUNNING: "running, asked to end"},
)
_RETRY = JobAction(name="retry", verb=SteerVerb.REOPEN, doing="reopening")
_RESCHEDULE = JobAction(
    name="reschedule",
    verb=SteerVerb.RESCHEDULE,
    doing="rescheduling",
    states=(State.SCHEDULED, State.AVAILABLE, State.BLOCKED),
)
_DELETE = JobAction(
    name="delete",
    verb=SteerVerb.DELETE,
    doing="deleting",
    state_names={State.CLAIMED: "claimed, not deleted", State.RUNNING: "running, not deleted"},
    absent="deleted",
    refused=tuple(State),
)


@click.command()
@choosing
@audited
@store_options
@JSON
@click.pass_context
def cancel(context: click.Context, /, target: str | None, url: str | None, as_json: bool, **typed: Any) -> None:
    """End jobs that wait, and ask jobs that run to end.

    Jobs are given by id, or chosen by a selector: all conditions must hold.
    """
    _steer(context, _CANCEL, lambda app: app.jobs.cancel, target, url, as_json=as_json, **typed)


@click.command()
@click.option("--fresh", is_flag=True, help="Forget their steps and checkpoints: they do all of their work again.")
@choosing
@audited
@store_options
@JSON
@click.pass_context
def retry(context: click.Context, /, target: str | None, url: str | None, as_json: bool, fresh: bool, **typed: Any) -> None:
    """Run finished, held or scheduled jobs now, with fresh budgets.

    Jobs are given by id, or chosen by a selector, which must name a state, a reason or an error: otherwise completed jobs
    would run again by accident. With --error and no state it is the failed ones. They go on from their checkpoints and
    steps, unless --fresh is given.
    """
    if typed["error_key"] and not typed["state"]:
        typed["state"] = (State.FAILED.value,)
    if not typed["ids"] and not typed["state"] and not typed["reason"]:
        raise click.UsageError(
            "retry by selector needs --state (failed, held, cancelled, scheduled, completed), --reason or --error"
        )

    def bind(app: "App") -> Act:
        return lambda ids: app.jobs.retry(ids, fresh=fresh)

    _steer(context, _RETRY, bind, target, url, when={"is_fresh": fresh}, as_json=as_json, **typed)


@click.command()
@click.option("--delay", type=DURATION, help="Due after this time; 0s: now.")
@click.option("--at", type=INSTANT, metavar="TIME", help="Due then: ISO 8601 with its zone, such as 2030-01-31T08:00Z.")
@choosing
@audited
@store_options
@JSON
@click.pass_context
def reschedule(context: click.Context, /, target: str | None, url: str | None, as_json: bool, **typed: Any) -> None:
    """Make waiting jobs due at another time.

    Jobs are given by id, or chosen by a selector. Running and finished ones stay as they are.
    """
    delay, at = typed.pop("delay"), typed.pop("at")
    if (delay is None) == (at is None):
        raise click.UsageError("no time given: use --delay or --at, one of them")
    when = {"run_at": at} if delay is None else {"delay": delay}

    def bind(app: "App") -> Act:
        return lambda ids: app.jobs.reschedule(ids, **when)

    _steer(context, _RESCHEDULE, bind, target, url, when=when, as_json=as_json, **typed)


@click.command()
@choosing
@audited
@store_options
@JSON
@click.pass_context
def delete(context: click.Context, /, target: str | None, url: str | None, as_json: bool, **typed: Any) -> None:
    """Delete jobs without a trace. Running ones stay, and so do those of unfinished workflows; cancel them first.

    Jobs are given by id, or chosen by a selector.
    """
    _steer(context, _DELETE, lambda app: app.jobs.delete, target, url, as_json=as_json, **typed)


def _steer(
    context: click.Context,
    how: JobAction,
    bind: "Callable[[App], Act]",
    target: str | None,
    url: str | None,
    *,
    as_json: bool,
    dry_run: bool,
    yes: bool,
    when: Mapping[str, Any] | None = None,
    **typed: Any,
) -> None:
    from holdfast._engine.operators.batches import one_action, steer_matching
    from holdfast._processes.loading import opened

    chosen = Selection(**typed)
    chosen.check()
    with opened(target, url) as app:
        chosen = chosen.with_whole_ids(app)
        found = {} if chosen.ids else chosen.find(app, how.states)
        ids = jobs_of(app, chosen.ids) or list(found)
        if dry_run:
            _print_plan(app, how, found or _states_of(app, ids), as_json=as_json)
            return
        if chosen.is_by_selector and ids:
            confirm(f"{how.name} {_jobs(len(ids))}?", yes=yes)
        steer = Steer(how.verb, **(when or {}))
        act = bind(app) if chosen.ids else lambda some: steer_matching(app.jobs, steer, some, chosen.where)
        with one_action(app.audit, ids if chosen.ids else chosen.where):
            states = in_batches(ids, act, doing=how.doing)
        words = {} if chosen.is_by_selector or how.verb is not SteerVerb.DELETE else _words_of_kept(app, states)
    if chosen.is_by_selector:
        _print_counts(how, ids, states, as_json=as_json)
    else:
        context.exit(_print_states(how, ids, states, words, as_json=as_json))


def _states_of(app: "App", ids: Sequence[UUID]) -> dict[UUID, State]:
    from holdfast.errors import JobNotFound

    states = {}
    for id in ids:
        with suppress(JobNotFound):
            states[id] = app.jobs.get(id).state
    return states


def _print_plan(app: "App", how: JobAction, found: Mapping[UUID, State], *, as_json: bool) -> None:
    from holdfast.cli.output import print_json, print_table
    from holdfast.errors import JobNotFound

    fitting = [id for id, state in found.items() if state in FITTING[how.verb]]
    refused = Counter(state for state in found.values() if state not in FITTING[how.verb])
    first = []
    for id in fitting[:SHOWN]:
        with suppress(JobNotFound):
            job = app.jobs.get(id)
            first.append({"id": job.id, "task": job.task, "queue": job.queue, "state": job.state, "reason": job.reason})
    if as_json:
        print_json({"command": how.name, "jobs": len(found), "refused": refused.total(), "first": first})
        return
    others = "".join(f"; {count:,} {state.value}, refused" for state, count in refused.most_common())
    click.echo(f"would {how.name} {_jobs(len(fitting))}{others}" + (", the first ones:" if len(fitting) > len(first) else ""))
    if first:
        print_table(tuple(first[0]), [tuple(job.values()) for job in first], empty="")


def _print_counts(how: JobAction, ids: Sequence[UUID], states: Mapping[UUID, State], *, as_json: bool) -> None:
    """Print how many jobs are in which state now."""
    from holdfast.cli.output import print_json

    counted = Counter(states.get(id) for id in ids)
    refused = {state for state in counted if state is not None and state not in MEANT[how.verb]}
    if as_json:
        became = {how.absent if state is None else state.value: count for state, count in counted.items()}
        number = sum(counted[state] for state in refused)
        print_json({"command": how.name, "jobs": len(ids), "states": became, "refused": number})
        return
    noted = {state for state in refused if state not in how.state_names}
    words = (f"{count:,} {_word(how, state)}{', refused' if state in noted else ''}" for state, count in counted.most_common())
    click.echo("; ".join((_jobs(len(ids)), *words)))


def _words_of_kept(app: "App", states: Mapping[UUID, State]) -> dict[UUID, str]:
    """Return what is printed of each job that was not deleted although no worker owns it, with the reason."""
    from holdfast.errors import JobNotFound

    words = {}
    for id, state in states.items():
        with suppress(JobNotFound):
            flow = app.jobs.get(id).workflow if state not in OWNED else None
            if flow is not None and app.jobs.get(flow).finished_at is None:
                first = f"`holdfast workflows cancel {flow}` first"
                words[id] = here(f"{state.value}, not deleted: its workflow has not ended, {first}")
            elif flow is not None:
                words[id] = f"{state.value}, not deleted: a job that has not ended depends on it"
    return words


def _print_states(
    how: JobAction, ids: Sequence[UUID], states: Mapping[UUID, State], words: Mapping[UUID, str], *, as_json: bool
) -> int:
    """Print the new state of each job; return 1 when the action failed for one of them."""
    from holdfast.cli.output import print_json, print_table

    if as_json:
        absent = {} if how.absent == "unknown" else {str(id): how.absent for id in ids}
        print_json(absent | {str(id): state for id, state in states.items()})
    else:
        print_table(("id", "state"), [(id, words.get(id) or _word(how, states.get(id))) for id in ids], empty="")
    is_done = all((state := states.get(id)) not in how.refused and (state or how.absent != "unknown") for id in ids)
    return 0 if is_done else 1


def _word(how: JobAction, state: State | None) -> str:
    return how.absent if state is None else how.state_names.get(state, state.value)


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count:,} jobs"
