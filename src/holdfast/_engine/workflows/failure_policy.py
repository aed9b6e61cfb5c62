"""What the failure of a node means, as users write it."""

from typing import Literal

from holdfast._core.member import OnFailure

PolicyName = OnFailure | Literal["fail", "continue", "pause", "cancel"]


def failure_policy(given: object, problems: list[str]) -> OnFailure:
    """Return the policy with this name; append a name that is none to the problems."""
    if given in tuple(OnFailure):
        return OnFailure(str(given))
    problems.append(f"on_failure={given!r}: use one of {', '.join(map(repr, map(str, OnFailure)))}")
    return OnFailure.FAIL
