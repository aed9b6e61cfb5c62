"""The story of one job in English: which workers claimed it, which processes died or were frozen, and how each write was answered.

It is for readers who do not know the code. Events that explain nothing are left out, and repeated ones are described once.
"""

from collections.abc import Sequence
from uuid import UUID

from msgspec import Struct

from holdfast._core.job import PLACE_OF, AttemptOutcome, Place, State, Token
from holdfast._core.lifecycle import Precondition
from proof.checker.history import FAIL_OVER, IN_CARE, Event, History, JobRow, LeaseRow, Phase
from proof.report.aliases import Aliases
from proof.report.narrative_focus import Focus
from proof.report.sentences import BIRTH, MINOR, TOGETHER, USUAL, VITAL, Sentence, Sentences, change_of_flow, change_of_schedule

_STATES = {"available": "back in its queue", "scheduled": "back in its queue", "held": "held for an operator"}
_VERBS = {"report": "reports progress", "start": "starts", "hook": "commits the hook", "annotate": "adds to its record"}
_PROCESS_EVENTS = {
    "process.end": "dies",
    "process.freeze": "is frozen",
    "process.thaw": "wakes",
    "process.cut": "loses its connection to the store",
    "process.connect": "reaches the store again",
}
_ASIDE = {
    "request_cancel": "is cancelled by an operator",
    "reopen": "is returned to its queue by an operator",
    "reschedule": "is rescheduled by an operator",
    "delete": "is deleted by an operator",
    "purge": "is purged with its queue by an operator",
    "expire": "is failed because its time to start has run out",
    "prune": "is pruned, because it ended long ago",
    "owed_hooks": "is given to a worker for its hook only",
}


class _Lease(Struct):
    row: LeaseRow
    at: float
    is_warned: bool = False
    is_over: bool = False

    @property
    def expires(self) -> float:
        return self.at - self.row.overdue


class Narrator:
    """The story of a job that ends with the event at ``index``; without a job, of the processes and leases in ``values``."""

    def __init__(self, history: History, index: int, job: UUID | None, values: Sequence[object] = ()) -> None:
        self._events, self._values = history.events[: index + 1], values
        self._focus = Focus(self._events, job, values)
        self._aliases = Aliases(self._events, self._focus.jobs)
        self._received = {event.token for event in history.events if event.what == "claim"}
        self._sentences = Sentences()
        self._known: dict[UUID, _Lease] = {}
        self._claims: dict[UUID, Token] = {}
        self._running: dict[Token, str] = {}
        self._settled: set[Token] = set()
        self._openers: dict[str, str] = {}
        self._dead: set[str] = set()

    def tell(self, template: str) -> str:
        """Return the lines of the story. ``template``: what is wrong, with braces for the values."""
        for event in self._events:
            self._pass_time(event.time)
            self._see(event)
        wrong = template.format(*(self._aliases.name(value) for value in self._values))
        story, legend = self._aliases.render("\n".join([*self._sentences.lines(self._focus.tokens), f"What is wrong: {wrong}."]))
        title = f"The story of job {self._focus.jobs[0]}:" if self._focus.jobs else "The story:"
        return f"{title}\n{'':12} ({legend})\n{story}"

    def _see(self, event: Event) -> None:
        is_ours = event.job in self._focus.jobs and event.job is not None
        match event.what:
            case "job" if is_ours:
                self._see_row(event)
            case "lease" if event.lease in self._focus.leases:
                self._see_lease(event)
            case _ if is_ours and event.what.startswith("handler."):
                self._see_code(event)
            case "flow" | "step" | "signal.kept" | "signal.taken" if is_ours:
                self._sentences.add(event, change_of_flow(event, self._aliases.job(event.job)))
            case "write.refused" if is_ours:
                self._sentences.add(
                    event, f"{self._who(event)} writes as if it had the job: REFUSED", VITAL, key=f"refused {event.process}"
                )
            case _ if is_ours:
                self._see_call(event)
            case _ if event.what.startswith("process."):
                self._see_process(event)
            case "queue" if event.note.endswith(f" {self._focus.queue}") and not self._claims:
                self._sentences.add(event, f"the queue of the job is {event.note.split()[0]}", MINOR)
            case "schedule" if event.note in self._values:
                self._sentences.add(event, f"{self._who(event)} {change_of_schedule(event)}")
            case "clock.step":
                whose = event.process if event.process == "store" else f"machine {event.process}"
                self._sentences.add(event, f"the clock of the {whose} steps by {event.note} s", MINOR, key="clock.step")
            case "calm":
                self._sentences.add(event, "all faults stop here", MINOR)
            case _:
                pass

    def _who(self, event: Event) -> str:
        return self._aliases.process(event.process) or "an unknown process"

    # rows of the job

    def _see_row(self, event: Event) -> None:
        assert event.job is not None
        before, after, noun = event.before, event.after, self._aliases.job(event.job)
        verb = "" if event.by is None else event.by.verb
        old, new = (row if isinstance(row, JobRow) else None for row in (before, after))
        if verb == FAIL_OVER:
            self._sentences.add(event, f"the store fails over and forgets its newest writes: {noun} is {self._whose(new)} again")
        elif new is None:
            self._sentences.add(event, f"{noun} {_ASIDE.get(verb, 'is gone, although no caller deleted it')}", VITAL)
        elif old is None:
            self._see_birth(event, noun)
        else:
            self._see_change(event, noun, old, new)
        if new is not None and PLACE_OF[new.state] is Place.ACTIVE:
            self._claims[event.job] = new.token
        else:
            self._claims.pop(event.job, None)

    def _whose(self, row: JobRow | None) -> str:
        if row is None:
            return "unknown"
        is_owned = PLACE_OF[row.state] is Place.ACTIVE
        return f"owned by {self._aliases.owned(row.token)}" if is_owned else _state(row)

    def _see_birth(self, event: Event, noun: str) -> None:
        by, row, key = event.by, event.after, f"{BIRTH} {event.job}"
        assert isinstance(row, JobRow)
        text = f"{self._who(event)} enqueues {noun}" if event.process else f"{noun} is enqueued"
        if by is not None and by.parent is not None and by.token is not None:
            text = f"code of {self._aliases.owned(by.token)} of {self._aliases.job(by.parent)} enqueues {noun}"
        text += f", due in {row.due_in:.1f} s" if row.due_in > TOGETHER else ""
        text += f", which expires in {row.expires_in:.1f} s" if row.expires_in is not None else ""
        self._sentences.forget(key)  # the sentence that reports the request
        self._sentences.add(event, text, VITAL, key=key)

    def _see_change(self, event: Event, noun: str, old: JobRow, new: JobRow) -> None:
        was, now = PLACE_OF[old.state], PLACE_OF[new.state]
        by = "" if event.by is None else event.by.verb
        if by == "hook":
            self._sentences.add(event, f"{self._who(event)} commits the hook of {noun}, which is {self._whose(new)}")
        elif now is Place.ACTIVE and old.token != new.token:
            worker = self._aliases.process(self._aliases.workers.get(new.lease, "") if new.lease else "") or "an unknown worker"
            rest = f", although {self._aliases.owned(old.token)} owns it" if was is Place.ACTIVE else ""
            rest += f", although it is {_state(old)}" if was is Place.FINISHED or old.state is State.HELD else ""
            rest += ", and never receives the answer" if self._received and new.token not in self._received else ""
            text = f"{worker} claims {noun} ({self._aliases.claim(new.token)}){rest}"
            self._sentences.add(event, text, key=f"claim {new.token}", token=new.token)
        elif now is Place.ACTIVE:
            self._see_write(event, noun, old, new)
        elif was is Place.ACTIVE:
            self._see_move(event, noun, old, new)
        elif old.state is not new.state:
            self._sentences.add(
                event, f"{noun} {_ASIDE.get(by, f'was {_state(old)} and becomes {_state(new)}')}", key=f"{by} {event.job}"
            )
        elif by in _ASIDE:
            self._sentences.add(event, f"{noun} {_ASIDE[by]}", MINOR, key=f"{by} {event.job}")

    def _see_write(self, event: Event, noun: str, old: JobRow, new: JobRow) -> None:
        verb, token = ("", None) if event.by is None else (event.by.verb, event.by.token)
        if new.is_cancel_requested and not old.is_cancel_requested:
            self._sentences.add(event, f"an operator cancels {noun}: its row now asks the owner to stop")
        elif token is not None and token != old.token:
            rest = f"ACCEPTED, although {self._aliases.owned(old.token)} owns {noun}"
            self._sentences.add(
                event, f"{self._who(event)} {_VERBS.get(verb, 'writes')} under {self._aliases.claim(token)}: {rest}", VITAL
            )
        elif new.witness != old.witness and new.witness not in ("", str(new.token)):
            self._sentences.add(
                event,
                f"progress of {self._aliases.name(new.witness)} is written on the row of {self._aliases.owned(new.token)}",
                VITAL,
            )
        elif old.state is not new.state:
            self._sentences.add(event, f"the start of {self._aliases.claim(new.token)} is written", MINOR)
        elif verb in ("", "report"):
            self._sentences.add(event, f"{self._aliases.owned(new.token)} reports progress", MINOR, key=f"progress {new.token}")

    def _see_move(self, event: Event, noun: str, old: JobRow, new: JobRow) -> None:
        by, ends = event.by, _state(new) + _price(old, new)
        named = self._aliases.name(new.result) if new.result and new.result != str(old.token) else ""
        ends += f", with the result of {named}" if named else ""
        self._settled.add(old.token)
        if by is None:
            text = f"{noun}, owned by {self._aliases.owned(old.token)}, is {ends}"
            self._sentences.add(event, text, VITAL if named else USUAL, token=old.token)
        elif by.token is None:
            verb = {"enqueue": "enqueues"}.get(by.verb, "changes")
            self._sentences.add(
                event, f"{self._who(event)} {verb} {noun}, although {self._aliases.owned(old.token)} owns it: it is {ends}", VITAL
            )
        elif by.token != old.token:
            what = "rescues the job of" if by.precondition is Precondition.LEASE_ENDED else "settles"
            rest = f"ACCEPTED, although {self._aliases.owned(old.token)} owns {noun}: it is {ends}"
            self._sentences.add(event, f"{self._who(event)} {what} {self._aliases.claim(by.token)}: {rest}", VITAL)
        elif by.precondition is Precondition.TOKEN:
            is_back = (
                PLACE_OF[new.state] is Place.PENDING and by.record in (AttemptOutcome.RELEASED, None) and not _price(old, new)
            )
            verb = "releases" if is_back else "settles"
            self._sentences.add(
                event, f"{self._who(event)} {verb} {self._aliases.claim(old.token)}: {noun} is {ends}", token=old.token
            )
        else:
            whose, lease = self._aliases.owned(old.token), self._known.get(old.lease) if old.lease else None
            why = "whose lease has ended" if lease is None or lease.row.is_ended else "whose lease HAS NOT ENDED"
            why = why if by.precondition is Precondition.LEASE_ENDED else "which took too long"
            self._sentences.add(event, f"{self._who(event)} takes {noun} from {whose}, {why}: it is {ends}", token=old.token)

    # leases and time

    def _pass_time(self, now: float) -> None:
        for lease in self._known.values():
            process = lease.row.process
            if lease.row.is_ended or not self._is_involved(process):
                continue
            whose = self._aliases.whose(process)
            stop = lease.expires - lease.row.margin
            if stop < now and not lease.is_warned and process not in self._dead:
                lease.is_warned = True
                text = f"the lease of {whose} was not renewed in time: by now its code must have stopped"
                self._sentences.append(Sentence(stop, text, VITAL if process in self._running.values() else MINOR))
            if lease.expires < now and not lease.is_over:
                lease.is_over = True
                self._sentences.append(Sentence(lease.expires, f"the lease of {whose} runs out", MINOR))

    def _see_lease(self, event: Event) -> None:
        assert event.lease is not None
        old, after = self._known.get(event.lease), event.after
        if not isinstance(after, LeaseRow):
            return
        verb, whose = "" if event.by is None else event.by.verb, self._aliases.lease(event.lease)
        if event.process and event.process != after.process:
            self._openers.setdefault(after.process, event.process)
        if verb == FAIL_OVER:
            self._sentences.add(event, f"the store forgets the newest of {whose} too", MINOR, key="forgotten leases")
        elif after.is_ended and (old is None or not old.row.is_ended):
            self._see_lease_end(event, whose, after)
        elif old is not None and old.row.is_ended and not after.is_ended:
            self._sentences.add(event, f"{whose}, which had ended, IS ACTIVE AGAIN", VITAL)
        elif old is not None and event.time > old.expires:
            self._sentences.add(
                event, f"{whose} is renewed, {event.time - old.expires:.1f} s late, before another process ended it"
            )
        elif old is None and not self._focus.jobs:
            self._sentences.add(event, f"{whose} begins; it lasts {after.ttl:g} s from each renewal")
        if after.is_draining and (old is None or not old.row.is_draining) and not after.is_ended:
            self._sentences.add(event, f"{self._aliases.process(after.process)} is asked to end", MINOR)
        # The story mentions an expiry once, and does not repeat one that was over before a store was set back.
        known = _Lease(after, event.time)
        is_same = old is not None and old.is_over and abs(old.expires - known.expires) < 0.01
        known.is_warned = known.is_over = is_same or known.expires < event.time
        self._known[event.lease] = known

    def _see_lease_end(self, event: Event, whose: str, after: LeaseRow) -> None:
        late = f"{after.overdue:.1f} s after it ran out" if after.overdue >= 0 else f"{-after.overdue:.1f} s BEFORE it runs out"
        is_own = event.process == after.process
        actor = self._aliases.process(event.process)
        if event.by is not None and event.by.is_judged:
            why = f", {late}"
        elif after.process in self._dead:
            why = f", because {self._aliases.whose(after.process)} has died"
        else:
            why = f", {late}, ALTHOUGH {self._aliases.whose(after.process)} is alive" if actor else ""
        weight = USUAL if self._is_involved(after.process) else MINOR
        text = f"{actor} ends {whose}{why}" if actor else f"{whose} is ended{why}"
        self._sentences.add(event, f"{actor} ends its lease" if is_own else text, weight)

    # code, calls and processes

    def _see_code(self, event: Event) -> None:
        assert event.token is not None
        assert event.job is not None
        token, owner, worker = event.token, self._claims.get(event.job), self._who(event)
        is_owner = owner == token
        match event.what:
            case "handler.start":
                self._running[token] = event.process
                claimed = self._sentences.last
                if claimed is not None and claimed.key == f"claim {token}":
                    claimed.text, claimed.key = f"{claimed.text}, and its code starts", ""
                else:
                    self._sentences.add(event, f"the code of {self._aliases.claim(token)} starts in {worker}")
            case "handler.end":
                self._running.pop(token, None)
                self._sentences.add(event, f"the code of {self._aliases.owned(token)} ends", MINOR if is_owner else USUAL)
            case "handler.effect" if not is_owner:
                text = f"the code of {self._aliases.owned(token)} STILL WORKS, {self._although(event.job)}"
                self._sentences.add(event, text, VITAL, key=f"late {token}")
            case _:
                pass

    def _although(self, job: UUID) -> str:
        owner = self._claims.get(job)
        return "although the job was taken from it" if owner is None else f"although {self._aliases.owned(owner)} owns the job"

    def _see_call(self, event: Event) -> None:
        noun = self._aliases.job(event.job)
        match event.what, event.phase:
            case "settle", Phase.FAIL:
                self._sentences.add(event, f"{self._settle_of(event)}: REFUSED, {_reason(event.note)}", VITAL)
            case "settle", Phase.OK if event.token not in self._settled:
                self._sentences.add(event, f"{self._settle_of(event)}: confirmed, and NOTHING WAS DONE", VITAL)
            case "settle", Phase.UNKNOWN:
                self._sentences.add(event, f"{self._settle_of(event)}: it receives no answer", key=f"unknown {event.token}")
            case (("report" | "start"), Phase.FAIL) if event.token is not None:
                text = f"{self._who(event)} {_VERBS[event.what]} under {self._aliases.claim(event.token)}: REFUSED"
                self._sentences.add(event, text, key=f"refused {event.token}")
            case "claim", Phase.OK if (
                event.token is not None and self._aliases.owners.get(event.token, event.process) != event.process
            ):
                self._sentences.add(
                    event, f"{self._who(event)} gets the answer that it has {self._aliases.owned(event.token)}", VITAL
                )
            case "enqueue", Phase.INVOKE:
                self._sentences.add(event, f"{self._who(event)} asks to enqueue {noun}", VITAL, key=f"{BIRTH} {event.job}")
            case "enqueue", Phase.FAIL:
                self._sentences.add(event, f"{self._who(event)} gets the answer that {noun} is REFUSED", VITAL)
            case "enqueue", Phase.OK:
                self._see_acknowledged(event, noun)
            case "enqueue", Phase.UNKNOWN:
                self._sentences.add(event, f"{self._who(event)} receives no answer", MINOR, key=f"no answer {event.job}")
            case "request_cancel", Phase.OK:
                self._sentences.add(event, f"{self._who(event)} gets the answer that {noun} is cancelled, or will be", VITAL)
            case _:
                pass

    def _see_acknowledged(self, event: Event, noun: str) -> None:
        birth = self._sentences.find(f"{BIRTH} {event.job}")
        if birth is None:
            self._sentences.add(event, f"{self._who(event)} gets the answer that {noun} is there", key=f"{BIRTH} {event.job}")
        elif not birth.text.endswith("there"):
            text = birth.text.replace(f"{noun} is enqueued", f"{self._who(event)} enqueues {noun}")
            birth.text = f"{text}, and gets the answer that it is there"

    def _settle_of(self, event: Event) -> str:
        assert event.token is not None
        word = event.by.outcome.split()[0] if event.by is not None and event.by.outcome else ""
        outcome = f" as {_STATES.get(word, word)}" if word else ""
        what = "rescues the job of" if event.by is not None and event.by.precondition is not Precondition.TOKEN else "settles"
        return f"{self._who(event)} {what} {self._aliases.claim(event.token)}{outcome}"

    def _is_involved(self, process: str) -> bool:
        """Return whether the process owns the job, runs its code, supervises such a process, or is the subject of the story."""
        owners = {self._aliases.owners.get(token, "") for token in self._claims.values()} | set(self._running.values())
        return process in owners or process in self._focus.processes or process in {self._openers.get(owner) for owner in owners}

    def _see_process(self, event: Event) -> None:
        is_involved = self._is_involved(event.process)
        if event.what == "process.end":
            self._dead.add(event.process)
            self._running = {token: process for token, process in self._running.items() if process != event.process}
        if not is_involved or event.what not in _PROCESS_EVENTS:
            return
        who, how = self._aliases.process(event.process), event.note.removesuffix(f", {IN_CARE}")
        last = self._sentences.last
        is_cut = event.what in ("process.cut", "process.connect")
        key = f"{event.what} {event.process}" if is_cut else f"{event.what} {event.process} {event.time}"
        if last is not None and last.key.startswith(event.what) and event.time - last.time < TOGETHER and key not in last.key:
            last.key += f"|{key}"
            last.text += f", and so {'is' if event.what == 'process.freeze' else 'does'} {who}"
        else:
            fate = f"{_PROCESS_EVENTS[event.what]} ({how})" if how and not is_cut else _PROCESS_EVENTS[event.what]
            self._sentences.add(event, f"{who} {fate}", MINOR if is_cut else USUAL, key=key)


def _state(row: JobRow) -> str:
    reason = f" ({row.reason})" if row.reason and PLACE_OF[row.state] is Place.FINISHED else ""
    due = f", due in {row.due_in:.1f} s" if row.state in (State.AVAILABLE, State.SCHEDULED) and row.due_in > TOGETHER else ""
    return _STATES.get(row.state, str(row.state)) + reason + due


def _price(old: JobRow, new: JobRow) -> str:
    crash = f", charged with crash {new.crashes} of {new.policy.max_crashes}" if new.crashes > old.crashes else ""
    failure = f", charged with failure {new.failures} of {new.policy.max_attempts}" if new.failures > old.failures else ""
    return crash + failure + (", and its hook is due" if new.is_owed and not old.is_owed else "")


def _reason(note: str) -> str:
    return {"lost": "it has lost the job", "missing": "the store has no such job"}.get(note, note or "it has lost the job")
