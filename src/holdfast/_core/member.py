"""What a job is in a workflow, beside what every job is."""

from enum import StrEnum
from uuid import UUID

from msgspec import Struct


class OnFailure(StrEnum):
    """What happens when a member ends and has not completed.

    FAIL: its dependents fail, all others run on. CONTINUE: its dependents run as if it had completed. PAUSE: the workflow pauses, and its
    dependents wait until an operator decides. CANCEL: everything of the workflow that has not finished is cancelled.
    """

    FAIL = "fail"
    CONTINUE = "continue"
    PAUSE = "pause"
    CANCEL = "cancel"


class Input(Struct, frozen=True):
    """A parameter of a member that gets the result of another one, or what is at ``path`` in it.

    ``is_each``: the result is a list, and the member runs once for each item of it. ``is_item``: the parameter is a list, and the result is
    its next item, in the order of the inputs.
    """

    parameter: str
    parent: UUID
    path: tuple[str, ...] = ()
    is_each: bool = False
    is_item: bool = False


class Member(Struct, frozen=True, kw_only=True, gc=False):
    """What a job of a workflow has beside what every job has.

    ``node``: its name in the workflow. ``join``: how many of its parents must succeed; ``None``: all. ``is_gate``: it has no code, and
    ends once what it waits for has ended. ``needs``: the successes that it still requires; ``waits``: its parents that have not ended; both
    count only while it is blocked. ``is_paused``: it is held because its workflow is paused. ``is_suspended``: while it is blocked, it
    waits for the children that it has added, and then runs again.
    """

    flow: UUID
    node: str
    join: int | None = None
    on_failure: OnFailure = OnFailure.FAIL
    is_gate: bool = False
    inputs: tuple[Input, ...] = ()
    needs: int = 0
    waits: int = 0
    is_paused: bool = False
    is_suspended: bool = False

    @property
    def is_map(self) -> bool:
        """Whether it runs once for each item of a list."""
        return any(each.is_each for each in self.inputs)

    @property
    def source(self) -> UUID | None:
        """The member whose result is that of this gate."""
        return self.inputs[0].parent if self.is_gate and self.inputs and not self.is_map else None
