"""Finds the guards in a file of SQL, and for each the edit that removes it.

A guard is what keeps a statement from touching, taking or answering more than it should: each operand of AND and OR, the
condition of a WHERE, ON, HAVING, WHEN or iif(), a LIMIT, a row lock, and DO NOTHING. A condition becomes ``(… OR TRUE)``, an
alternative ``(… AND FALSE)``, so that parameters keep their places and types. In a template ``{…}`` stands for one expression, and
so does the comment that includes a part.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

_TOKEN = re.compile(
    r"""(?P<include>--\ include\ \w+\((?:[^()\n]|\((?:[^()\n]|\((?:[^()\n]|\([^()\n]*\))*\))*\))*\))
    |(?P<space>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<text>[xX]?'(?:[^']|'')*'|"(?:[^"]|"")*")
    |(?P<word>[A-Za-z_]\w*)
    |(?P<sign>::|[:$.]\w+|\{\w+\}|.)""",
    re.VERBOSE | re.DOTALL,
)
_BEGIN_CONDITIONS = frozenset({"WHERE", "ON", "HAVING", "WHEN"})
_SEPARATORS = frozenset(
    (
        *(
            "WHERE",
            "ON",
            "HAVING",
            "WHEN",
            "THEN",
            "ELSE",
            "SELECT",
            "DISTINCT",
            "FROM",
            "JOIN",
            "LEFT",
            "RIGHT",
            "INNER",
            "CROSS",
        ),
        *(
            "FULL",
            "LATERAL",
            "GROUP",
            "ORDER",
            "BY",
            "LIMIT",
            "OFFSET",
            "FOR",
            "UNION",
            "INTERSECT",
            "EXCEPT",
            "RETURNING",
            "SET",
        ),
        *("{order}", "{among}"),  # a whole clause, or nothing
        *("VALUES", "INSERT", "UPDATE", "DELETE", "INTO", "USING", "DO", "BEGIN", "WITH", "AS", "CASE", "MATERIALIZED"),
    )
)
_PHRASES = (
    ("DISTINCT", "FROM"),
    ("NOT", "DISTINCT"),
    ("IS", "DISTINCT"),
)  # of comparisons, in which those words separate nothing
_SIDES = frozenset({"LEFT", "RIGHT"})  # of a join, unless they are functions
_LONGEST = 100  # characters of a guard in its name


@dataclass(frozen=True)
class Guard:
    """``name``: stable while other lines of the file change. ``start``, ``end``: what ``instead`` replaces."""

    name: str
    start: int
    end: int
    instead: str

    def removed_from(self, text: str) -> str:
        """Return the file without this guard."""
        return text[: self.start] + self.instead + text[self.end :]


@dataclass
class _Node:
    """A token, or a group in parentheses or between CASE and END, which stands for one."""

    word: str
    start: int
    end: int
    inside: list[_Node] = field(default_factory=list)
    is_group: bool = False


def guards(text: str) -> list[Guard]:
    """Find all guards of a file, in the order in which they end."""
    found = sorted(_guards_of(_tree(text), text), key=lambda each: (each.end, each.start))
    times: Counter[str] = Counter()
    named = []
    for each in found:
        times[each.name] += 1
        again = f" #{times[each.name]}" if times[each.name] > 1 else ""
        named.append(replace(each, name=each.name + again))
    return named


def _tree(text: str) -> list[_Node]:
    levels: list[list[_Node]] = [[]]
    for match in _TOKEN.finditer(text):
        if match.lastgroup == "space":
            continue
        word = match.group().upper() if match.lastgroup == "word" else match.group()
        if word in ("(", "[", "CASE"):
            group = _Node(word, match.start(), match.end(), is_group=True)
            levels[-1].append(group)
            levels.append(group.inside)
        elif word in (")", "]") or (word == "END" and len(levels) > 1):
            levels.pop()
            levels[-1][-1].end = match.end()
        else:
            levels[-1].append(_Node(word, match.start(), match.end()))
    return levels[0]


def _guards_of(nodes: Sequence[_Node], text: str, *, group: str = "", function: str = "") -> Iterator[Guard]:
    for opener, segment in _segments(nodes, group):
        is_first = bool(nodes) and segment[0] is nodes[0]
        if opener == "LIMIT":
            yield _edit(text, segment, "LIMIT", "({}) + 1000")
        elif _is_condition(opener, segment, is_argument=function == "IIF" and is_first):
            yield from _of_condition(opener if opener in _BEGIN_CONDITIONS else "value", segment, text)
    yield from _locks(nodes, text)
    for place, node in enumerate(nodes):
        if node.is_group:
            before = nodes[place - 1].word if place else ""
            yield from _guards_of(node.inside, text, group=node.word, function=before)


def _segments(nodes: Sequence[_Node], group: str) -> Iterator[tuple[str, list[_Node]]]:
    """Expressions between words that separate them, each with that word; in ``CASE value WHEN …`` there are no conditions."""
    is_simple = group == "CASE" and bool(nodes) and nodes[0].word != "WHEN"
    opener, clause, segment, has_joined = "", "", list[_Node](), False
    for place, node in enumerate([*nodes, _Node(";", 0, 0)]):
        before = nodes[place - 1].word if place else ""
        after = nodes[place + 1].word if place + 1 < len(nodes) else ""
        if not _separates(node, before, after):
            segment.append(node)
            continue
        if clause == "SET":
            segment = segment[2:]  # the column and its equals sign
        if segment:
            yield opener, segment
        opener, segment = node.word, []
        clause = clause if node.word == "," else node.word
        has_joined = node.word == "JOIN" or (has_joined and node.word != "SELECT")
        if (node.word == "ON" and not has_joined) or (node.word == "WHEN" and is_simple):
            opener = ""


def _separates(node: _Node, before: str, after: str) -> bool:
    if node.is_group or (before, node.word) in _PHRASES or (node.word in _SIDES and after == "("):
        return False
    return node.word in (",", ";") or node.word in _SEPARATORS


def _is_condition(opener: str, segment: Sequence[_Node], *, is_argument: bool) -> bool:
    words = [node.word for node in segment if not node.is_group]
    if words[:1] == ["CONFLICT"] or words in ([], ["TRUE"]):
        return False
    is_boolean = bool(_places(segment, "AND") or _places(segment, "OR")) or words[0] == "EXISTS" or words[:2] == ["NOT", "EXISTS"]
    return opener in _BEGIN_CONDITIONS or is_argument or is_boolean


def _of_condition(kind: str, segment: Sequence[_Node], text: str) -> Iterator[Guard]:
    alternatives = _split(segment, "OR")
    for alternative in alternatives:
        if len(alternatives) > 1:
            yield _edit(text, alternative, "OR", "({} AND FALSE)")
        operands = _split(alternative, "AND")
        if len(operands) > 1 or len(alternatives) == 1:
            for operand in operands:
                yield _edit(text, operand, "AND" if len(operands) > 1 else kind, "({} OR TRUE)")


def _split(segment: Sequence[_Node], word: str) -> list[Sequence[_Node]]:
    borders = [-1, *_places(segment, word), len(segment)]
    return [segment[left + 1 : right] for left, right in pairwise(borders)]


def _places(segment: Sequence[_Node], word: str) -> list[int]:
    """Find where a word is an operator: the AND of a BETWEEN is not one."""
    found, is_between = [], False
    for place, node in enumerate(segment):
        if node.is_group:
            continue
        if node.word == "BETWEEN":
            is_between = True
        elif node.word == "AND" and is_between:
            is_between = False
        elif node.word == word:
            found.append(place)
    return found


def _locks(nodes: Sequence[_Node], text: str) -> Iterator[Guard]:
    for place in range(len(nodes)):
        words = [each.word for each in nodes[place : place + 8]]
        if words[:1] == ["FOR"] and words[1:2] and words[1] in ("UPDATE", "NO", "SHARE", "KEY"):
            length = {"UPDATE": 2, "SHARE": 2, "KEY": 3, "NO": 4}[words[1]]
            length += 2 if words[length : length + 1] == ["OF"] else 0
            if words[length : length + 2] == ["SKIP", "LOCKED"]:
                yield _edit(text, nodes[place + length : place + length + 2], "lock", "")
                length += 2
            yield _edit(text, nodes[place : place + length], "lock", "")
        elif words[:4] == ["ON", "CONFLICT", "DO", "NOTHING"]:
            yield _edit(text, nodes[place : place + 4], "conflict", "")


def _edit(text: str, nodes: Sequence[_Node], kind: str, form: str) -> Guard:
    start, end = nodes[0].start, nodes[-1].end
    output = " ".join(re.sub(r"--(?! include \w+\()[^\n]*", "", text[start:end]).split())
    short = output if len(output) <= _LONGEST else output[: _LONGEST - 1] + "…"
    return Guard(f"{kind}: {short}", start, end, form.replace("{}", text[start:end]))
