"""The graph of a new workflow: members are added, and everything is checked before anything is stored."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar, overload
from uuid import UUID

from msgspec import structs

from holdfast._core.headers import inherited
from holdfast._core.job import NewJob
from holdfast._core.member import Input, Member, OnFailure
from holdfast._core.workflow import Edge, NewFlow, NewMember, WorkflowSettings, gate_edges
from holdfast._engine.tasks.after import AtLeast, Join, When
from holdfast._engine.tasks.output import outputs_of
from holdfast._engine.tasks.registry import NAME, TaskDefinition
from holdfast._engine.tasks.task import PreparedJob
from holdfast._engine.workflows.failure_policy import PolicyName, failure_policy
from holdfast._engine.workflows.fitting import fits, item_of, kinds_of, name_of_type
from holdfast._engine.workflows.node import Node
from holdfast._engine.workflows.waits import Waits
from holdfast.errors import ConfigurationError

Result = TypeVar("Result")

DEFAULTS = WorkflowSettings()
DEEPEST = 5
"""How deep workflows may be members of each other."""


class _AddsItself(ConfigurationError):
    """A workflow is a node of itself, too deep."""


class Workflow:
    """A workflow that is being built. ``root``: its own job, from which members take what they do not have themselves.

    >>> def release(w: Workflow, ref: str) -> Node[str]:
    ...     source = w.add(checkout.bind(ref=ref))
    ...     tested = w.add(test.bind(source=source.output))
    ...     return w.add(publish.bind(source=source.output), after=[tested])
    """

    def __init__(
        self,
        root: NewJob,
        settings: WorkflowSettings = DEFAULTS,
        *,
        outer: "Workflow | None" = None,
        definition: TaskDefinition | None = None,
    ) -> None:
        self._root, self._settings, self._outer, self._definition = root, settings, outer, definition
        self._depth: int = 0 if outer is None else outer._depth + 1
        self._nodes = dict[str, Node[Any]]()
        self._members = dict[UUID, NewMember]()
        self._edges = list[Edge]()
        self._numbers = dict[str, int]()
        self._problems = list[str]()
        self._is_complete = False
        self._refused: set[UUID] = set() if outer is None else outer._refused  # nodes that have a problem, and are not added
        self._inner = set[UUID]()  # members of workflows that are members, for whose nodes this one waits

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

        A workflow is added as a task is. Its members become members of this one, named ``node/member``; those of them that wait for no
        other wait for ``after``. The node ends once they have ended, and its ``output`` is the result of the workflow.
        """
        self._require_usable("add", job)
        new = job.new_member()
        node = Node[Any](new.id, self._name_of(job, name), job)
        waits = self._waits(node, after, join, when)
        if job.task.definition.workflow is not None:
            return self._add_workflow(node, new, waits, on_failure)
        return self._add(node, new, waits, on_failure)

    @overload
    def map(
        self,
        job: PreparedJob[Coroutine[Any, Any, Result]],
        *,
        name: str | None = None,
        after: Sequence[Node[Any]] = (),
        when: When = "succeeded",
        on_failure: PolicyName | None = None,
    ) -> Node[list[Result]]: ...
    @overload
    def map(
        self,
        job: PreparedJob[Result],
        *,
        name: str | None = None,
        after: Sequence[Node[Any]] = (),
        when: When = "succeeded",
        on_failure: PolicyName | None = None,
    ) -> Node[list[Result]]: ...
    def map(
        self,
        job: PreparedJob[Any],
        *,
        name: str | None = None,
        after: Sequence[Node[Any]] = (),
        when: When = "succeeded",
        on_failure: PolicyName | None = None,
    ) -> Node[list[Any]]:
        """Add a job for each item of a list that a member returns, once that member has completed; at most 10,000.

        The arguments with ``each(…)`` take the items; of several lists the first items go together, then the second ones, and so on. Items
        are named ``test[3]``. The ``output`` is the list of their results, in the order of the items. ``on_failure``: what happens when an
        item does not complete. With ``"continue"``, the list has a ``Failed`` in that position.

        >>> w.map(test.bind(source=source.output, suite=each(suites.output)))  # doctest: +SKIP
        """
        self._require_usable("map", job)
        new = job.new_member()
        node = Node[Any](new.id, self._name_of(job, name), job, is_map=True)
        return self._add(node, new, self._waits(node, after, "all", when), on_failure)

    def _require_usable(self, verb: str, job: object) -> None:
        """Raise ``ConfigurationError`` for a graph that is complete, and for what is not a bound task."""
        if self._is_complete:
            remedy = "add nodes inside the `with` block or the function that builds it; a running job adds one with job.enqueue"
            raise ConfigurationError([f"workflow {self._root.task}: w.{verb}(…) after its graph was complete: {remedy}"])
        if not isinstance(job, PreparedJob):
            name = getattr(job, "name", "task") if hasattr(job, "bind") else "task"
            given = name if hasattr(job, "bind") else repr(job)
            raise ConfigurationError(
                [f"workflow {self._root.task}: w.{verb}({given}): bind the arguments first: w.{verb}({name}.bind(…))"]
            )

    def _waits(self, node: Node[Any], after: object, join: Join, when: When) -> Waits:
        found = list[str]()
        waits = Waits.of(after, join, when, found)
        self._problems += [f"{node.name}: {problem}" for problem in found]
        return waits

    def _add(self, node: Node[Any], new: NewJob, waits: Waits, on_failure: PolicyName | None) -> Node[Any]:
        inputs = _inputs_of(node.prepared)
        parents = waits.parents(each.parent for each in inputs)
        self._check(node, waits, parents, new, inputs)
        self._put(node, new, Member(flow=self._root.id, node=node.name, join=waits.required(parents), inputs=inputs), on_failure)
        self._edges += waits.edges(parents, node.job)
        return node

    def _put(self, node: Node[Any], new: NewJob, member: Member, on_failure: PolicyName | None) -> None:
        found = list[str]()
        policy = self._settings.on_failure if on_failure is None else failure_policy(on_failure, found)
        self._problems += [f"{node.name}: {problem}" for problem in found]
        self._nodes[node.name] = node
        self._members[new.id] = NewMember(new, structs.replace(member, on_failure=policy))

    def _add_workflow(self, node: Node[Any], gate: NewJob, waits: Waits, on_failure: PolicyName | None) -> Node[Any]:
        parents = waits.parents(())
        self._check_options(node, gate)
        self._check_parents(node, waits, parents)
        if self._depth == DEEPEST:
            if self._is_in(node.prepared.task.definition):
                remedy = f"for recursion, await job.call({gate.task}.bind(…)) in a task"
                raise _AddsItself([f"{gate.task} adds itself, and workflows in workflows are at most {DEEPEST} deep: {remedy}"])
            return self._refuse(node, [f"{node.name}: workflows in workflows, {DEEPEST + 1} deep: at most {DEEPEST}"])
        try:
            inner, flow = _inner(node.prepared, gate, self)
        except _AddsItself as error:
            if self._outer is not None:
                raise  # each level would repeat it
            return self._refuse(node, error.problems)
        except ConfigurationError as error:
            return self._refuse(node, [f"{node.name}: {problem}" for problem in error.problems])
        self._put(node, gate, structs.replace(flow.root.member, flow=self._root.id, node=node.name), on_failure)
        for each in flow.members:
            named = f"{node.name}/{each.member.node}"
            known = inner._nodes[each.member.node]
            self._nodes[named] = Node[Any](known.job, named, known.prepared, is_map=known.is_map)
            self._members[each.job.id] = NewMember(each.job, structs.replace(each.member, flow=self._root.id, node=named))
        self._inner |= {each.job.id for each in flow.members}
        self._enter(node, flow, waits, parents)
        return node

    def _is_in(self, definition: TaskDefinition) -> bool:
        return self._definition is definition or (self._outer is not None and self._outer._is_in(definition))

    def _refuse(self, node: Node[Any], problems: Sequence[str]) -> Node[Any]:
        self._problems += [each for each in problems if each not in self._problems]
        self._refused.add(node.job)
        return node

    def _enter(self, node: Node[Any], flow: NewFlow, waits: Waits, parents: Sequence[UUID]) -> None:
        """Let the members of a workflow that wait for none of the others wait for what its node waits for."""
        inner = {each.job.id: None for each in flow.members}
        waiting = {edge.child for edge in flow.edges if edge.parent in inner}
        known = {(edge.parent, edge.child) for edge in flow.edges}
        self._edges += flow.edges
        for entry in [each for each in inner if each not in waiting] or [node.job] if parents else ():
            job, member = self._members[entry].job, self._members[entry].member
            takes_others = any(edge.child == entry for edge in flow.edges)
            if takes_others and (waits.join != "all" or member.join is not None):
                self._problems.append(f"{node.name}: {member.node} waits for nodes outside of it: use join='all' for both")
            self._members[entry] = NewMember(job, structs.replace(member, join=member.join or waits.required(parents)))
            self._edges += [edge for edge in waits.edges(parents, entry) if (edge.parent, entry) not in known]

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
        elif result is not None and result.job not in self._members.keys() | self._refused:
            problems.append(f"{result.name!r} is returned, but belongs to another workflow: return a node of this one")
        if problems:
            raise ConfigurationError([f"workflow {self._root.task}: {problem}" for problem in problems])
        self._root = root or self._root
        inputs = () if result is None else (Input("", result.job),)
        own = [each for each in self._members if each not in self._inner]
        gate = Member(flow=self._root.id, node=self._root.task, is_gate=True, inputs=inputs)
        edges = (*self._edges, *gate_edges(self._root.id, own, self._edges))
        members = tuple(NewMember(self._inherited(each), each.member) for each in self._members.values())
        return NewFlow(root=NewMember(self._root, gate), members=members, edges=edges, deadline=self._settings.deadline)

    def _name_of(self, job: PreparedJob[Any], name: str | None) -> str:
        if name is not None:
            if not NAME.fullmatch(name):
                self._problems.append(f"name={name!r}: use up to 200 letters, digits and the characters _ . : -")
            if name in self._nodes:
                self._problems.append(f"two members have the name {name!r}: give each its own")
            return name
        task = job.task.name
        number = self._numbers.get(task, 1)  # all before it are taken: to try each again takes minutes for 10,000 nodes
        while (named := task if number == 1 else f"{task}-{number}") in self._nodes:
            number += 1
        self._numbers[task] = number + 1
        return named

    def _check(self, node: Node[Any], waits: Waits, parents: Sequence[UUID], new: NewJob, inputs: Sequence[Input]) -> None:
        where = node.name
        self._check_options(node, new)
        self._check_parents(node, waits, parents)
        if waits.join != "all" and inputs:
            missing = sorted({each.parameter for each in inputs})
            self._problems.append(f"{where}: with join={waits.join!r} it may start before {missing} exist: use join='all'")
        if any(each.is_each for each in inputs) is not node.is_map:
            remedy = (
                "w.map needs an argument each(node.output)"
                if node.is_map
                else "each(…) is for w.map, which runs it for each item"
            )
            self._problems.append(f"{where}: {remedy}")
        for each in inputs:
            if (parent := self._find(each.parent)) is not None:
                is_tolerant = waits.when == "finished" or parent[1].on_failure is OnFailure.CONTINUE
                self._check_input(node, each, parent[0], is_tolerant=is_tolerant)

    def _check_options(self, node: Node[Any], new: NewJob) -> None:
        if new.unique_key is not None:
            self._problems.append(f"{node.name}: unique_key: a member cannot have one; give it to the workflow")
        if node.prepared.options.within is not None:
            self._problems.append(f"{node.name}: within: a member is written with its workflow; give it to the workflow")
        if node.prepared.options.after is not None:
            self._problems.append(f"{node.name}: after: give it to the node: w.add(…, after=[node])")
        settings = node.prepared.task.definition.workflow
        if settings is not None and settings.deadline is not None:
            self._problems.append(f"{node.name}: deadline: a workflow that is a node has none; give it to the outer workflow")

    def _check_parents(self, node: Node[Any], waits: Waits, parents: Sequence[UUID]) -> None:
        for parent in parents:
            if self._find(parent) is None and parent not in self._refused:
                self._problems.append(
                    f"{node.name}: it depends on a node of another workflow: use one that this workflow has added"
                )
        join, number = waits.join, len(parents)
        if isinstance(join, AtLeast) and not 1 <= join.number <= number:
            self._problems.append(f"{node.name}: join={join!r}, but it has {number} parents: use 1 to {number}")

    def _find(self, job: UUID) -> tuple[Node[Any], Member] | None:
        """Return a member of this workflow, or of one that this one is in."""
        if (known := self._members.get(job)) is not None:
            return self._nodes[known.member.node], known.member
        return None if self._outer is None else self._outer._find(job)

    def _check_input(self, node: Node[Any], given: Input, parent: Node[Any], *, is_tolerant: bool) -> None:
        accepts, produced, parameter = node.prepared.task.definition.payload, parent.kind, given.parameter
        accepted = accepts.type_of(parameter)
        if given.is_item and (given.is_each or parent.is_map):
            self._problems.append(
                f"{node.name}: {parameter}: the list of {parent.name!r} in a list: give it a separate parameter"
            )
            return
        if given.is_each and not fits(produced, list[Any]):
            self._problems.append(f"{node.name}: each(…) takes a list, and {parent.name!r} returns {name_of_type(produced)}")
            return
        item, expected = item_of(produced) if given.is_each else produced, item_of(accepted) if given.is_item else accepted
        if not fits(item, expected):
            part = "an item of the result" if given.is_each else "the result"
            what = f"{parameter} cannot {'have' if given.is_item else 'be'} {part} of {parent.name!r}"
            is_mappable = kinds_of(item) == {"array"} and fits(item_of(item), expected) and not given.is_each | given.is_item
            remedy = "; for its items use w.map and each(node.output)" if is_mappable else ""
            types = f"which has the type {name_of_type(item)}: {parameter} {'has items' if given.is_item else 'is'} of the type"
            self._problems.append(f"{node.name}: {what}, {types} {name_of_type(expected)}{remedy}")
        is_list = parent.is_map or given.is_item
        if is_tolerant and not given.is_each and parameter not in (accepts.fallible_items if is_list else accepts.fallible):
            wanted = "Sequence[… | Failed]" if is_list else "… | Failed"
            self._problems.append(
                f"{node.name}: {parameter} may be a Failed, because {parent.name!r} need not complete: annotate it with `{wanted}`"
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


def _inputs_of(job: PreparedJob[Any]) -> tuple[Input, ...]:
    found = list[Input]()
    for name, given in job.references.items():
        items = given if isinstance(given, list) else [given]
        found += [Input(name, each.job, each.path, each.is_each, is_item=isinstance(given, list)) for each in items]
    return tuple(found)


def build(definition: TaskDefinition, root: NewJob) -> tuple[Workflow, Any]:
    """Call the function of a workflow with the payload of its root; return the graph, and the node that the function returned."""
    graph = Workflow(root, definition.workflow or DEFAULTS, definition=definition)
    arguments, _ = definition.payload.decode(root.payload)
    function: Callable[..., Any] = definition.function
    result = function(graph, **arguments)
    graph._is_complete = True
    return graph, result


def _inner(job: PreparedJob[Any], gate: NewJob, outer: Workflow) -> tuple[Workflow, NewFlow]:
    """Build a workflow that is a member of another one; its function gets the outputs that it was bound with as they are."""
    definition = job.task.definition
    graph = Workflow(gate, definition.workflow or DEFAULTS, outer=outer, definition=definition)
    arguments, _ = definition.payload.without(frozenset(job.references)).decode(job.payload)
    result = definition.function(graph, **arguments, **outputs_of(job.references))
    graph._is_complete = True
    return graph, graph.flow(result)
