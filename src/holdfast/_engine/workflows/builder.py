"""The graph of a new workflow: members are added, and everything is checked before anything is stored."""

from collections.abc import Coroutine, Sequence
from typing import Any, Literal, TypeVar, overload
from uuid import UUID

from msgspec import structs

from holdfast._core.headers import inherited
from holdfast._core.job import NewJob
from holdfast._core.member import Input, Member, OnFailure
from holdfast._core.payload import annotations_of
from holdfast._core.workflow import Edge, NewFlow, NewMember, WorkflowSettings, gate_edges
from holdfast._engine.tasks.registry import NAME
from holdfast._engine.tasks.task import PreparedJob
from holdfast._engine.workflows.fitting import fits
from holdfast._engine.workflows.node import AtLeast, Node
from holdfast.errors import ConfigurationError

Result = TypeVar("Result")

Join = Literal["all", "any"] | AtLeast
When = Literal["succeeded", "finished"]
PolicyName = OnFailure | Literal["fail", "continue", "pause", "cancel"]

DEFAULTS = WorkflowSettings()


class Workflow:
    """A workflow that is being built. ``root``: its own job, from which members take what they do not have themselves.

    >>> def release(w: Workflow, ref: str) -> Node[str]:
    ...     source = w.add(checkout.bind(ref=ref))
    ...     tested = w.add(test.bind(source=source.output))
    ...     return w.add(publish.bind(source=source.output), after=[tested])
    """

    def __init__(self, root: NewJob, settings: WorkflowSettings = DEFAULTS) -> None:
        self._root, self._settings = root, settings
        self._nodes = dict[str, Node[Any]]()
        self._members = dict[UUID, NewMember]()
        self._edges = list[Edge]()
        self._problems = list[str]()

    @overload
    def add(
        self,
        job: PreparedJob[Coroutine[Any, Any, Result]],
        *,
        name: str | None = None,
        after: Sequence[Node[Any]] = (),
        join: Join = "all",
        when: When = "succeeded",
        on_failure: PolicyName | None = None,
    ) -> Node[Result]: ...
    @overload
    def add(
        self,
        job: PreparedJob[Result],
        *,
        name: str | None = None,
        after: Sequence[Node[Any]] = (),
        join: Join = "all",
        when: When = "succeeded",
        on_failure: PolicyName | None = None,
    ) -> Node[Result]: ...
    def add(
        self,
        job: PreparedJob[Any],
        *,
        name: str | None = None,
        after: Sequence[Node[Any]] = (),
        join: Join = "all",
        when: When = "succeeded",
        on_failure: PolicyName | None = None,
    ) -> Node[Any]:
        """Add a member that runs after ``after`` and after the members whose ``output`` it takes.

        ``join``: how many of them must complete first. ``when="finished"``: it also runs after those that did not complete.
        ``on_failure``: what happens when it does not complete, instead of what the workflow does. Wrong arguments are reported by ``flow``.
        """
        new, named = job.new_member(), self._name_of(job, name)
        node = Node[Any](new.id, named, job)
        inputs = tuple(Input(each, given.job, given.path) for each, given in job.references.items())
        parents = list(dict.fromkeys([each.job for each in after] + [each.parent for each in inputs]))
        policy = self._settings.on_failure if on_failure is None else OnFailure(on_failure)
        self._check(node, join, parents, new, is_tolerant=when == "finished")
        member = Member(flow=self._root.id, node=named, join=_required(join, len(parents)), on_failure=policy, inputs=inputs)
        self._nodes[named] = node
        self._members[new.id] = NewMember(new, member)
        self._edges += [Edge(parent, new.id, tolerates=when == "finished") for parent in parents]
        return node

    def flow(self, result: Node[Any] | None = None, *, root: NewJob | None = None) -> NewFlow:
        """Return what is to be stored; ``result``: the member whose result is that of the workflow.

        ``root``: the workflow's own job, if that has changed since members were added.
        Raises ``ConfigurationError`` with everything that cannot work.
        """
        problems, most = list(self._problems), self._settings.max_nodes
        if len(self._members) > most:
            problems.append(f"{len(self._members):,} members, at most {most:,}: raise max_nodes, or use fewer")
        if result is not None and not isinstance(result, Node):
            problems.append(f"{result!r} is returned: return a node, as w.add(…) returns it, or nothing")
        elif result is not None and result.job not in self._members:
            problems.append(f"{result.name!r} is returned, but belongs to another workflow: return a node of this one")
        if problems:
            raise ConfigurationError([f"workflow {self._root.task}: {problem}" for problem in problems])
        self._root = root or self._root
        inputs = () if result is None else (Input("", result.job),)
        gate = Member(flow=self._root.id, node=self._root.task, is_gate=True, inputs=inputs)
        edges = (*self._edges, *gate_edges(self._root.id, self._members, self._edges))
        members = tuple(NewMember(self._inherited(each), each.member) for each in self._members.values())
        return NewFlow(root=NewMember(self._root, gate), members=members, edges=edges, deadline=self._settings.deadline)

    def _name_of(self, job: PreparedJob[Any], name: str | None) -> str:
        if name is not None:
            if not NAME.fullmatch(name):
                self._problems.append(f"name={name!r}: use up to 200 letters, digits and the characters _ . : -")
            if name in self._nodes:
                self._problems.append(f"two members have the name {name!r}: give each its own")
            return name
        number, task = 1, job.task.name
        while (named := task if number == 1 else f"{task}-{number}") in self._nodes:
            number += 1
        return named

    def _check(self, node: Node[Any], join: Join, parents: Sequence[UUID], new: NewJob, *, is_tolerant: bool) -> None:
        where, references = node.name, node.prepared.references
        for parent in parents:
            if parent not in self._members:
                self._problems.append(f"{where}: it depends on a node of another workflow: use one that this workflow has added")
        if isinstance(join, AtLeast) and not 1 <= join.number <= len(parents):
            self._problems.append(f"{where}: join={join!r}, but it has {len(parents)} parents: use 1 to {len(parents)}")
        if join != "all" and references:
            self._problems.append(f"{where}: with join={join!r} it may start before {sorted(references)} exist: use join='all'")
        if node.prepared.task.definition.workflow is not None:
            self._problems.append(f"{where}: a workflow cannot be a node: call a function that adds its nodes to this one")
        if new.unique_key is not None:
            self._problems.append(f"{where}: unique_key: a member cannot have one; give it to the workflow")
        if node.prepared.options.within is not None:
            self._problems.append(f"{where}: within: a member is written with its workflow; give it to the workflow")
        for parameter, reference in references.items():
            if (known := self._members.get(reference.job)) is not None:
                self._check_reference(node, parameter, known.member, is_tolerant=is_tolerant)

    def _check_reference(self, node: Node[Any], parameter: str, parent: Member, *, is_tolerant: bool) -> None:
        accepts = node.prepared.task.definition.payload
        produced = annotations_of(self._nodes[parent.node].prepared.task.definition.function).get("return", Any)
        if not fits(produced, accepts.type_of(parameter)):
            self._problems.append(
                f"{node.name}: {parameter} cannot be the result of {parent.node!r}, which has the type {produced}"
            )
        if (is_tolerant or parent.on_failure is OnFailure.CONTINUE) and parameter not in accepts.fallible:
            self._problems.append(
                f"{node.name}: {parameter} may be a Failed, because {parent.node!r} need not complete: annotate it with `… | Failed`"
            )

    def _inherited(self, member: NewMember) -> NewJob:
        """Return a member with what the workflow has where neither its task nor its options choose something."""
        root, new = self._root, member.job
        options = self._nodes[member.member.node].prepared.options
        is_due_later = new.run_at is not None or new.delay > 0
        return structs.replace(
            new,
            queue=root.queue if options.queue is None and new.queue == "default" else new.queue,
            key=new.key or root.key,
            priority=root.priority if options.priority is None and new.priority == 0 else new.priority,
            tags=tuple(dict.fromkeys((*root.tags, *new.tags))),
            headers=inherited(root.headers, new.headers),
            delay=new.delay if is_due_later else root.delay,
            run_at=new.run_at if is_due_later else root.run_at,
        )


def _required(join: Join, parents: int) -> int | None:
    if isinstance(join, AtLeast):
        return join.number
    return 1 if join == "any" and parents > 0 else None
