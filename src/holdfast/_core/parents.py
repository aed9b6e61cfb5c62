"""The nodes whose outcomes a running job may read, by the names that its own workflow has for them."""

from collections.abc import Collection
from uuid import UUID

from holdfast._core.workflow import FlowView, MemberView

MOST_NAMES = 10


def parents_of(job: UUID, view: FlowView) -> dict[str, MemberView]:
    """Return the members that this one depends on, by their names.

    A member of a workflow within another one is called ``deploy/smoke`` there; the names of its parents are those beside it.
    """
    members = {each.job: each for each in view.members}
    if job not in members:
        return {}
    prefix = members[job].member.node.rpartition("/")[0]
    parents = [members[each] for each in members[job].parents if each in members]
    return {each.member.node.removeprefix(f"{prefix}/" if prefix else ""): each for each in parents}


def unknown_parent(node: object, known: Collection[str]) -> str:
    """Return what is wrong with a name that is that of no parent, with the names that are.

    >>> unknown_parent("tests", ["test", "build"])
    "job.inputs('tests'): the job does not depend on a node of this name; it depends on build, test"
    """
    names = sorted(known)
    more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    named = (
        f"it depends on {', '.join(names[:MOST_NAMES])}{more}"
        if names
        else "it depends on none: add it to a workflow with after=[…]"
    )
    return f"job.inputs({node!r}): the job does not depend on a node of this name; {named}"
