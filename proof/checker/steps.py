"""Durable steps and signals: records are written once, by the owner of the job, and what they say is what the code gets."""

from collections import defaultdict
from uuid import UUID

from msgspec import json

from holdfast._core.job import PLACE_OF, Place, State, Token
from holdfast._core.policy import RETENTION_FLOOR
from holdfast._core.steps import CALL, GATHER, WAIT, StepKey
from proof.checker.claims import ACCURACY
from proof.checker.flow_rows import SignalRow, StepRow
from proof.checker.history import Event, JobRow, Phase
from proof.checker.verdicts import CheckContext, Seers


class Steps:
    """S22 and S23. ``_added``: the children that jobs have added in a write, and those that their steps remember of it."""

    def __init__(self, context: CheckContext) -> None:
        self._context, self._expect = context, context.expect
        self._rows: dict[UUID, JobRow] = {}
        self._records: defaultdict[UUID, dict[StepKey, str | None]] = defaultdict(dict)
        self._signals: defaultdict[UUID, dict[UUID, SignalRow]] = defaultdict(dict)
        self._added: defaultdict[UUID, tuple[set[UUID], set[UUID]]] = defaultdict(lambda: (set(), set()))
        self._left: dict[UUID, Token] = {}  # the owners that have given their jobs up in a write
        self._kept = set[UUID]()
        self._touched = set[UUID]()

    def seers(self) -> Seers:
        """Return the events that these rules read."""
        return {
            "job": self._see_job,
            "step": self._see_step,
            "steps.forgotten": self._see_forgotten,
            "step.returned": self._see_returned,
            "children.returned": self._see_children,
            "signal": self._see_answer,
            "signal.kept": self._see_kept,
            "signal.taken": self._see_taken,
            "written": self._see_written,
        }

    def finish(self) -> None:
        """Do nothing: these rules need no check at the end."""

    def _see_job(self, event: Event) -> None:
        before, after, job = event.before, event.after, event.job
        assert job is not None
        if not isinstance(after, JobRow):
            for known in (self._rows, self._records, self._signals):
                known.pop(job, None)
            return
        self._rows[job] = after
        if isinstance(before, JobRow) and PLACE_OF[before.state] is Place.ACTIVE:
            self._left[job] = before.token
        if before is None and event.by is not None and event.by.verb == "adopt" and event.by.parent is not None:
            self._added[event.by.parent][0].add(job)
        if after.awaits or job in self._signals:
            self._touched.add(job)
        is_woken = event.by is not None and event.by.verb == "signal"
        if is_woken and isinstance(before, JobRow):
            self._expect("S23", after.due_in <= ACCURACY, job, "its signal has come, and it is due in {:.3f} s", after.due_in)

    # steps

    def _see_step(self, event: Event) -> None:
        assert event.job is not None
        assert isinstance(event.after, StepRow)
        key, records = (event.after.name, event.after.nth), self._records[event.job]
        self._expect_owner("S22", event, "the record of the step {} was written by {}, which did not own the job", key)
        self._expect("S22", key not in records, event.job, "the record of the step {} was written again", key)
        records[key] = event.after.result
        if key[0].startswith((CALL, GATHER)):
            self._added[event.job][1].update(json.decode(event.after.result or "[]", type=list[UUID]))

    def _see_forgotten(self, event: Event) -> None:
        assert event.job is not None
        self._records.pop(event.job, None)
        if event.note:
            self._signals.pop(event.job, None)

    def _see_returned(self, event: Event) -> None:
        assert event.job is not None
        name, nth, result = event.note.split("|", 2)
        if not self._is_owner(event.job, event.token):
            return  # its records may be forgotten by now
        key, records = (name, int(nth)), self._records.get(event.job, {})
        self._expect("S22", key in records, event.job, "code went on after the step {}, which has no record", key)
        if key in records:
            text = "the step {} returned {}, and its record is {}"
            self._expect("S22", (records[key] or "") == result, event.job, text, key, result, records[key])

    def _see_children(self, event: Event) -> None:
        name, nth, _ = event.note.split("|", 2)
        if event.job is not None and self._is_owner(event.job, event.token):
            is_known = (name, int(nth)) in self._records.get(event.job, {})
            self._expect("S22", is_known, event.job, "code went on after the children of {}, of which it has no record", name)

    def _expect_remembered(self) -> None:
        """Check that each job's steps remember the children that it has added in this write, if it is to run again."""
        for job, (added, remembered) in self._added.items():
            row = self._rows.get(job)
            if row is not None and row.member is not None and not row.member.is_gate:
                text = "it has added {} children, and its steps remember {} of them"
                self._expect("S22", added == remembered, job, text, len(added), len(added & remembered))
        self._added.clear()

    # signals

    def _see_answer(self, event: Event) -> None:
        if event.phase is Phase.OK and event.note == "accepted" and event.by is not None:
            self._expect("S23", event.by.call in self._kept, event.job, "a signal was accepted, and was never kept")

    def _see_kept(self, event: Event) -> None:
        assert event.job is not None
        assert isinstance(event.after, SignalRow)
        signal = event.after
        is_new = signal.call not in self._kept or self._context.rules.floor < RETENTION_FLOOR
        self._expect("S23", is_new, event.job, "a copy of a signal was kept as another one")
        row = self._rows.get(event.job)
        self._expect("S23", row is None or not row.is_finished, event.job, "a signal was kept for a job that has ended")
        self._kept.add(signal.call)
        self._signals[event.job][signal.call] = signal
        self._touched.add(event.job)

    def _see_taken(self, event: Event) -> None:
        assert event.job is not None
        assert isinstance(event.after, SignalRow)
        self._expect_owner("S23", event, "the signal {} was consumed by {}, which did not own the job", event.after.name)
        known = self._signals[event.job].pop(event.after.call, None)
        self._expect("S23", known is not None, event.job, "the signal {} was consumed again", event.after.name)
        is_written = event.after.value in self._waits(event.job, event.after.name)
        self._expect("S23", is_written, event.job, "the signal {} was consumed, and no step has its value", event.after.name)

    def _see_written(self, event: Event) -> None:
        del event
        self._expect_remembered()
        self._left.clear()
        for job in self._touched:
            row = self._rows.get(job)
            if row is None:
                continue
            names = {signal.name for signal in self._signals.get(job, {}).values()}
            is_waiting = row.state in (State.AVAILABLE, State.HELD) and row.awaits != ""
            if is_waiting:
                self._expect("S23", row.awaits not in names, job, "it waits for the signal {}, which has come", row.awaits)
            for name in names:
                values = [signal.value for signal in self._signals[job].values() if signal.name == name]
                taken = [value for value in self._waits(job, name) if value in values]
                self._expect("S23", not taken, job, "the signal {} was consumed, and is still there", name)
        self._touched = set()

    def _waits(self, job: UUID, name: str) -> list[str | None]:
        return [result for (step, _), result in self._records.get(job, {}).items() if step == f"{WAIT}{name}"]

    # owners

    def _expect_owner(self, name: str, event: Event, text: str, what: object) -> None:
        token = None if event.by is None else event.by.token
        is_owner = self._is_owner(event.job, token)
        if event.by is not None and event.by.verb == "adopt" and event.job is not None:  # it has given the job up in this write
            is_owner = token is not None and self._left.get(event.job) == token
        self._expect(name, is_owner, event.job, text, what, token)

    def _is_owner(self, job: UUID | None, token: Token | None) -> bool:
        row = None if job is None else self._rows.get(job)
        return row is not None and PLACE_OF[row.state] is Place.ACTIVE and row.token == token
