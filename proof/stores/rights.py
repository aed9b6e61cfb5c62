"""The right under which each row of a real store changed: it follows from the call whose statement changed the row."""

from typing import Any, cast

from msgspec import Struct

from holdfast._core.job import PLACE_OF, Place
from holdfast._core.lifecycle import Transition
from proof.checker.history import By, JobRow, outcome_of


class Call(Struct, frozen=True):
    """One call of a verb by a process."""

    process: str
    verb: str
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]

    def by(self, job: Any, before: JobRow | None, after: JobRow | None) -> By:
        """Return the right under which this call has changed a job's row."""
        match self.verb:
            case "exchange":
                return self._exchange(job, before, after)
            case "enqueue":
                parent, token = self.keywords.get("under") or (None, None)
                return By("enqueue", token, call=self.arguments[0], parent=parent)
            case "enqueue_flow" | "enqueue_after":
                return By("enqueue", call=self.arguments[0])
            case "enqueue_member" if before is None:
                parent, token = self.keywords["under"]
                return By("enqueue", token, call=self.arguments[0], parent=parent)
            case "start_through":
                return By(self.verb, None if before is None else before.token)
            case "start" | "report":
                return self._under(job, before)
            case _:
                return By(self.verb)

    @property
    def of_lease(self) -> By:
        """The right under which this call has changed a lease."""
        return By(self.verb, is_judged=self.verb == "end_lease" and self.keywords.get("seen") is not None)

    def adopting(self, child: Any) -> Transition | None:
        """Return the transition of this exchange that adds a child, or that remembers the children of a job."""
        for move in self.arguments[0]:
            if move.children is not None and (move.job == child or any(each.job.id == child for each in move.children.members)):
                return cast(Transition, move)
        return None

    def _under(self, job: Any, before: JobRow | None) -> By:
        given = self.arguments[0]
        tokens = [token for each, token in given if each == job] if self.verb == "start" else []
        tokens = tokens or [each.token for each in given if self.verb == "report" and each.job == job]
        if not tokens:
            return By(self.verb)
        return By(self.verb, before.token if before is not None and before.token in tokens else tokens[0])

    def _exchange(self, job: Any, before: JobRow | None, after: JobRow | None) -> By:
        if before is not None and after is not None and _is_claim(before, after):
            return By("claim")
        if before is None and (adopting := self.adopting(job)) is not None:
            return By("adopt", adopting.token, parent=adopting.job)
        moves = [move for move in self.arguments[0] if move.job == job]
        is_passed_on = before is not None and before.member is not None and PLACE_OF[before.state] is not Place.ACTIVE
        if not moves or is_passed_on:
            return By("pass_on" if is_passed_on else "exchange")
        move = next((each for each in moves if before is not None and each.token == before.token), moves[0])
        return By("exchange", move.token, move.precondition, outcome_of(move), record=move.record)


def _is_claim(before: JobRow, after: JobRow) -> bool:
    return PLACE_OF[before.state] is Place.PENDING and PLACE_OF[after.state] is Place.ACTIVE
