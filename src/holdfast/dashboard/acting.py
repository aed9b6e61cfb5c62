"""Actions on the pages: a confirmation that states what will happen, then the action, for one thing or for all jobs that match."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import parse_qsl, quote

from msgspec import ValidationError
from starlette.requests import Request

from holdfast._core.requests import Steer
from holdfast._engine.client.handle import id_of
from holdfast._engine.store_defaults import WAITING
from holdfast.dashboard.actions import EFFECTS, OFFERED, REASONED, TYPED_ABOVE
from holdfast.dashboard.enqueuing import enqueue, enqueue_form
from holdfast.dashboard.selecting import chosen_in, fields, in_words
from holdfast.dashboard.views.job import reveal_page
from holdfast.dashboard.views.page import Page, jobs_where, message
from holdfast.dashboard.words import number, short
from holdfast.errors import ConfigurationError
from holdfast.http.bulk import bulk_of, steer_of
from holdfast.http.changes import MOST_REASON, Change, make
from holdfast.http.identity import Identity
from holdfast.http.job_verbs import VERBS, reschedule, steered
from holdfast.http.limits import BodyTooLarge, read_body
from holdfast.http.managed import Managed
from holdfast.http.operations import Bulk, Operations, Phase, count
from holdfast.http.permissions import Action
from holdfast.http.problems import ApiError
from holdfast.http.revealing import revealed
from holdfast.http.selectors import require_readable, selector_in, where_of
from holdfast.http.verbs import Verbs

FORM_BYTES: Final = 64 * 1024
MANY: Final = ("jobs", "selected")
"""Actions on many jobs: on all that match, and on those that are ticked."""
KINDS: Final = ("job", *MANY, "task", "queue", "schedule", "workflow", "worker", "rows", "operation")
_OWN: Final = frozenset(("token", "reason", "typed", "counted", "delay", "name", "up_to"))
"""The fields of a form that are not conditions of a selector."""


class Wanted:
    """An action as a form asks for it. ``bulk``: what it is for, if it is for all jobs that match."""

    def __init__(self, kind: str, action: str, given: Mapping[str, str], identity: Identity, may: Collection[Action]) -> None:
        about = "job" if kind in MANY else kind
        is_known = kind in KINDS and action in set(Action) and (about, Action(action)) in EFFECTS
        if not is_known or (kind in MANY and action not in OFFERED):
            raise ApiError(404, "no_such_action", f"there is no action {action!r} for {kind!r}", "go back to the page before")
        self.kind, self.action, self.given, self.identity, self.may = kind, Action(action), given, identity, may
        self.effect, self.name = EFFECTS[about, self.action], given.get("name", "")
        self.delay = given.get("delay", "").strip()
        if kind not in (*MANY, "task") and not self.name:
            raise ConfigurationError(["name: it is missing in the address"])

    @property
    def target(self) -> str:
        """The path of what it is about, as the API has it."""
        return "/jobs" if self.kind in (*MANY, "task") else f"/{_folder(self.kind)}/{self.name}"

    @property
    def targets(self) -> list[str]:
        """The paths for which its sender needs the right: of selected jobs each one."""
        selected = chosen_in(self.given) if self.kind == "selected" else ()
        return [self.target, *(f"/jobs/{job}" for job in selected)]

    def change(self) -> Change:
        """Return the change, with the reason that the person gave."""
        reason = self.given.get("reason", "").strip()[:MOST_REASON]
        return Change(action=self.action, target=self.target, by=self.identity.name, reason=reason, via="dashboard")

    def bulk(self, *, is_counted: bool = False) -> Bulk:
        """Return the action on many jobs; ``is_counted``: to count them, without the delay that a person typed.

        Raises ``ConfigurationError`` for conditions that cannot be read.
        """
        delay = ("0s" if is_counted else self.delay or "0s") if self.action is Action.RESCHEDULE else None
        if self.kind == "selected":
            return Bulk.of_chosen(steer_of(self.action, delay), chosen_in(self.given))
        conditions = {name: value for name, value in self.given.items() if name not in _OWN and value}
        conditions = {"error_key" if name == "error" else name: value for name, value in conditions.items()}
        up_to = self._up_to()
        try:
            where = where_of(selector_in(conditions), up_to, must_choose=True)
        except (ValidationError, ValueError) as error:
            raise ConfigurationError([f"the address cannot be read: {error}"]) from None
        require_readable(where, self.may)
        return bulk_of(self.action, where, delay, None)

    def _up_to(self) -> datetime:
        try:
            return datetime.fromisoformat(self.given.get("up_to", ""))
        except ValueError as error:
            raise ConfigurationError([f"the address cannot be read: {error}"]) from None


class Acting:
    """What the pages do. ``operations``: those of this process."""

    def __init__(self, managed: Managed, operations: Operations) -> None:
        self._managed, self._operations, self._verbs = managed, operations, Verbs(managed)

    async def confirmation(self, wanted: Wanted, problem: str = "") -> Page:
        """Return the page that states what an action will do."""
        if wanted.kind == "task":
            return enqueue_form(self._managed, wanted.given)
        chosen = chosen_in(wanted.given) if wanted.kind == "selected" else {}
        if wanted.kind == "selected" and not chosen:
            return message("No job is selected", "Go back to the list, tick jobs, and choose the action again.", status=400)
        jobs, about, back = await self._about(wanted)
        hidden = [
            (name, value) for name, value in wanted.given.items() if name not in ("token", "reason", "typed", "counted", "delay")
        ]
        is_certain = wanted.action not in (Action.DELETE, Action.PURGE) or jobs <= TYPED_ABOVE
        values = {
            "path": f"/actions/{wanted.kind}/{wanted.action}",
            "about": about,
            "seen": in_words(chosen, wanted.action) if chosen else "",
            "jobs": [(str(job), short(job)) for job in chosen],
            "effect": wanted.effect.text,
            "undo": wanted.effect.undo,
            "hidden": [*hidden, ("counted", str(jobs))],
            "is_reasoned": wanted.action in REASONED,
            "has_delay": wanted.action is Action.RESCHEDULE,
            "typed": "" if is_certain else str(jobs),
            "button": wanted.effect.name,
            "most_reason": MOST_REASON,
            "problem": problem,
            "back": back,
        }
        title = f"{wanted.effect.name}: {about}"
        return Page(
            template="confirm.html", title=title, section=back, values=values, status=422 if problem else 200, has_form=True
        )

    async def perform(self, wanted: Wanted) -> Page | str:
        """Do it; return the path to go on at, or the confirmation with what is missing."""
        if wanted.action in REASONED and not wanted.given.get("reason", "").strip():
            return await self.confirmation(wanted, "Write why: other operators find it paused.")
        if wanted.action is Action.RESCHEDULE and not wanted.delay:
            return await self.confirmation(wanted, "Write after which time it is due, such as 10m.")
        if wanted.action in (Action.DELETE, Action.PURGE):
            jobs, *_ = await self._about(wanted)
            if jobs > TYPED_ABOVE and wanted.given.get("typed", "").strip() != wanted.given.get("counted"):
                return await self.confirmation(wanted, "Type the number of jobs, as it stands above the button.")
        try:
            return await self._act(wanted)
        except ApiError as error:
            return await self.confirmation(wanted, f"{error.problem.detail}: {error.problem.remedy}.")
        except ConfigurationError as error:
            return await self.confirmation(wanted, " · ".join(error.problems))

    async def _about(self, wanted: Wanted) -> tuple[int, str, str]:
        """Return how many jobs it is for, what it is for in words, and the page to go back to."""
        name = wanted.name
        match wanted.kind:
            case "jobs":
                jobs, is_all = await count(self._managed.client, wanted.bulk(is_counted=True))
                words = f"{'' if is_all else 'more than '}{number(jobs)} {'job' if jobs == 1 else 'jobs'}"
                conditions = {key: value for key, value in wanted.given.items() if key not in _OWN}
                return jobs, f"{words} with {_words(conditions)}", jobs_where(**conditions)
            case "selected":
                jobs, _ = await count(self._managed.client, wanted.bulk(is_counted=True))
                states = {*chosen_in(wanted.given).values()}
                back = jobs_where(state=min(states)) if len(states) == 1 else "/jobs"
                return jobs, f"{jobs} selected {'job' if jobs == 1 else 'jobs'}", back
            case "job":
                record = await self._managed.record(id_of(name))
                return 1, f"{record.task} {short(record.id)}, which is {record.state}", f"/jobs/{record.id}"
            case "queue":
                counts = next((each.counts for each in await self._managed.queues.alist() if each.name == name), {})
                waiting = sum(counts.get(state, 0) for state in WAITING)
                return waiting, f"queue {name}, where {number(waiting)} {'job waits' if waiting == 1 else 'jobs wait'}", "/queues"
            case "workflow":
                return 1, f"workflow {short(name)}", f"/workflows/{quote(name, safe='')}"
            case "operation":
                return 1, f"operation {short(name)}", f"/operations/{quote(name, safe='')}"
            case "worker":
                holds = next((each.holds for each in await self._managed.workers.alist() if each.worker == name), 0)
                return holds, f"worker {name}, which has {number(holds)} {'job' if holds == 1 else 'jobs'}", "/workers"
            case "rows":
                return 1, f"rows of {name}", "/rows"
            case _:
                return 1, f"schedule {name}", "/schedules"

    async def _act(self, wanted: Wanted) -> Page | str:
        change, name = wanted.change(), wanted.name
        if wanted.kind == "task":
            made = await make(change, lambda: enqueue(self._managed, wanted.given))
            return enqueue_form(self._managed, wanted.given, made) if isinstance(made, list) else f"/jobs/{made}"
        if wanted.action is Action.REVEAL:
            job = id_of(name)
            return reveal_page(job, await make(change, lambda: revealed(self._managed, job)))
        if wanted.kind in MANY:
            bulk = wanted.bulk()
            begun = self._operations.start(change, bulk, await count(self._managed.client, bulk))
            return f"/operations/{begun.id}"
        if wanted.kind == "operation":
            await self._operations.stop(change, name)
            return f"/operations/{quote(name, safe='')}"
        if wanted.kind == "job":
            how = reschedule(wanted.delay, None) if wanted.action is Action.RESCHEDULE else Steer(VERBS[wanted.action])
            await make(change, lambda: steered(self._managed, id_of(name), how))
            return "/jobs" if wanted.action is Action.DELETE else f"/jobs/{id_of(name)}"
        verbs: dict[tuple[str, Action], Callable[[str], Awaitable[Any]]] = {
            ("queue", Action.PAUSE): self._verbs.pause,
            ("queue", Action.RESUME): self._verbs.resume,
            ("queue", Action.PURGE): self._verbs.purge,
            ("schedule", Action.RUN): self._verbs.run,
            ("schedule", Action.PAUSE): self._verbs.pause_schedule,
            ("schedule", Action.RESUME): self._verbs.resume_schedule,
            ("workflow", Action.CANCEL): self._verbs.cancel,
            ("workflow", Action.RECOVER): self._verbs.recover,
            ("worker", Action.DRAIN): self._verbs.drain,
            ("rows", Action.RESET): self._verbs.reset_rows,
        }
        await make(change, lambda: verbs[wanted.kind, wanted.action](name))
        return f"/workflows/{quote(name, safe='')}" if wanted.kind == "workflow" else f"/{_folder(wanted.kind)}"

    def progress(self, operation: str, may: frozenset[Action]) -> Page:
        """Return the page of an operation, which renews itself while it goes on."""
        of = self._operations.get(operation)
        done = of.done.jobs / of.expected if of.expected else 1.0
        values = {
            "id": of.id,
            "phase": of.phase.value,
            "fraction": 100 if of.phase is Phase.COMPLETED else min(round(100 * done), 99),
            "summary": f"{number(of.done.changed)} of {'more than ' if of.is_bounded else ''}{number(of.expected)} jobs changed.",
            "refused": of.done.refused,
            "states": sorted(of.done.states.items()),
            "by": of.by,
            "reason": of.reason,
            "error": of.error,
            "can_stop": of.phase is Phase.RUNNING and Action.STOP in may,
        }
        return Page(
            template="operation.html", title=f"{of.action.capitalize()} jobs", section="/jobs", values=values, has_form=True
        )


def _folder(kind: str) -> str:
    return kind if kind.endswith("s") else f"{kind}s"


def _words(conditions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in conditions.items() if value) or "any state"


async def form_of(request: Request) -> dict[str, str]:
    """Return the fields of a form. Raises ``ApiError`` for a body that is none."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        raise ApiError(415, "not_a_form", "the body is not a form", "send it from the page")
    try:
        return fields(parse_qsl((await read_body(request, FORM_BYTES)).decode(), keep_blank_values=True, max_num_fields=100))
    except (BodyTooLarge, ValueError):
        raise ApiError(413, "too_large", "the form is too large", "shorten its reason") from None
