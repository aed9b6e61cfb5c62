"""Rows of a watched table (semantics §9): the parts of S1, S3, S4, S5, S7, L2 and L4 that concern these."""

from proof.checker.history import Event, TableRow
from proof.checker.verdicts import CheckContext, Seers, TableRules

PENDING, BUSY, ENDED = "new", "busy", ("done", "failed")
_TOO_LONG = "row {} was in progress for {:.2f} s, and {:.2f} s are promised"


class RowTurns:
    """Judge each change of a row by the row's fence and by the fence that the call carried."""

    def __init__(self, context: CheckContext) -> None:
        self._context, self._rules = context, context.rules.table
        self._rows: dict[int, TableRow] = {}
        self._since: dict[int, float] = {}
        self._calm_since = 0.0 if context.rules.is_always_calm else float("inf")
        self._is_done = False

    def seers(self) -> Seers:
        """Return the events that these rules read; none where no table is watched."""
        return {} if self._rules is None else {"row": self._see, "calm": self._see_calm, "done": self._see_done}

    def finish(self) -> None:
        """Check that each row has ended."""
        if self._rules is not None and self._context.rules.is_complete and not self._is_done:
            self._expect_ended(self._rules)

    def _see_calm(self, event: Event) -> None:
        self._calm_since = min(self._calm_since, event.time)

    def _see_done(self, event: Event) -> None:
        del event
        self._is_done = True
        if self._rules is not None:
            self._expect_ended(self._rules)

    def _expect_ended(self, rules: TableRules) -> None:
        for key, row in self._rows.items():
            # L4 where a poison row may be the reason: such rows must not stop the others.
            name = "L4" if rules.poison and key not in rules.poison else "L2"
            self._expect(name, row.status in ENDED, "at the end row {} is still {}", key, row.status)

    def _see(self, event: Event) -> None:
        before, after = event.before, event.after
        if isinstance(after, TableRow) and self._rules is not None:
            if isinstance(before, TableRow):
                self._judge(event, self._rules, before, after)
            self._rows[after.key] = after
            if after.status == BUSY:
                self._since[after.key] = event.time

    def _judge(self, event: Event, rules: TableRules, before: TableRow, after: TableRow) -> None:
        verb, fence = ("", "") if event.by is None else (event.by.verb, event.by.outcome)
        key = after.key
        is_same = before.status == after.status
        self._expect("S4", is_same or before.status not in ENDED, "row {} was {} and became {}", key, before.status, after.status)
        if before.status == BUSY == after.status:
            is_held = before.fence == after.fence or verb == "adopt"
            self._expect("S1", is_held, "row {} was taken by {} while {} had it", key, after.fence, before.fence)
        elif before.status == PENDING and not is_same:
            is_claim = verb == "claim" and after.status == BUSY
            self._expect("S3", is_claim, "row {} became {} under {}, and had not been claimed", key, after.status, fence)
        elif before.status == BUSY:
            self._judge_end(rules, before, after, verb, fence)
        effects = before.effects + (verb == "transaction" and before.status == BUSY and after.status == "done")
        self._expect("S7", after.effects in (before.effects, effects), "an effect of row {} was committed without it", key)

    def _judge_end(self, rules: TableRules, before: TableRow, after: TableRow, verb: str, fence: str) -> None:
        key, now = after.key, self._context.now
        if verb == "reset":
            is_stale = before.held > rules.stale_after
            self._expect("S5", is_stale, "row {} was taken from its owner after {:.2f} s", key, before.held)
        else:
            self._expect("S3", fence == before.fence, "row {} was moved under {}, and {} had it", key, fence, before.fence)
        if after.status == "failed" and key not in rules.poison and rules.max_resets is not None:
            is_spent = after.resets >= rules.max_resets
            self._expect("L4", is_spent, "row {} failed, was not poison, and was reset {} times", key, after.resets)
        if rules.late is not None and now >= self._calm_since:
            took, bound = now - max(self._since[key], self._calm_since), rules.stale_after + rules.late
            self._expect("L2", took <= bound, _TOO_LONG, key, took, bound)

    def _expect(self, name: str, is_so: bool, problem: str, *values: object) -> None:
        self._context.expect(name, is_so, None, problem, *values)
