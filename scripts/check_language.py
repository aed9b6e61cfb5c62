"""Keep the language of the tree plain; `make check` and the commit-msg hook run this.

W1: a word that the language guide bans, in docstrings, comments, messages and documents. W2: a retired word in a defined name.
D1: a docstring that does not begin with a verb in the imperative. D2: a docstring of a function that has fewer than four words.
S1: a sentence of more than 35 words. T1: the name of a test over 100 characters, or with a banned word. C1: the subject of a commit.
`# language: word – why` in a file (in Markdown: `<!-- language: word – why -->`) allows a word, or a rule, in that file.

Paths as arguments judge only what is below them; `--commit-msg FILE` judges one message.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from language_rules import (
    COUNTED,
    LONGEST_SUBJECT,
    LONGEST_TEST_NAME,
    MOST_WORDS,
    NAMES,
    PARTS,
    PROSE,
    SENTENCE_END,
    SPLIT,
    SUBJECT,
    WORDS,
)

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "proof", "scripts", "bench", "examples", "tests")
DOCUMENTS = ("*.md", "docs/**/*.md", "bench/**/*.md", "examples/**/*.md")
SKIPPED = ("tests/simulation/stories/", "bench/results/", "scripts/language_rules.py", "tests/house/test_language.py")
IMPERATIVE = ("src", "proof")

ALLOWED = re.compile(r"language: ([^–\n]+) – \S")
CODE = re.compile(r"``.+?``|`[^`]+`|\]\([^)]*\)|\b[a-z][a-z+.-]*://\S+|<[^<>]*>|&\w+;")
ITEM = re.compile(r"\s*(?:[-*+]|\d+\.|\||#+|>)\s")
FENCE = re.compile(r"\s*(?:```|~~~)")
COMMENT_TO_SKIP = re.compile(r"(?:noqa|type:|language:|pragma|!|>|:)")
TEXTS = {"Check", "Cause", "Finding", "debug", "info", "warning", "error", "exception", "critical", "log"}
"""Calls whose strings people read: findings and log lines."""
STOP = {"a", "an", "the", "of", "to", "is", "its", "it", "this", "return", "whether"}

Function = ast.FunctionDef | ast.AsyncFunctionDef
Lines = list[tuple[int, str]]


@dataclass(frozen=True, slots=True, order=True)
class Hit:
    """One break of one rule."""

    path: str
    line: int
    rule: str
    advice: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule} {self.advice}"


def check_text(path: str, source: str) -> list[Hit]:
    """Return the hits of one file, but for those that the file allows with a reason."""
    if path.endswith(".py"):
        found = [Hit(path, *each) for each in _check_python(source)]
    elif path.endswith(".sql"):
        found = [Hit(path, *each) for each in _check_passage(_sql_comments(source), is_document=False)]
    else:
        found = [Hit(path, *each) for each in _check_passage(_markdown(source, path), is_document=True)]
    allowed = [word.strip().lower() for words in ALLOWED.findall(source) for word in words.split(",")]
    return [hit for hit in found if not any(word == hit.rule.lower() or f"'{word}" in hit.advice.lower() for word in allowed)]


def check_subject(message: str) -> str | None:
    """Return what is wrong with the first line of a commit message, or None.

    >>> check_subject("stores: End leases in one write.")
    "C1 'stores: End leases in one write.': write 'area: imperative summary', in 72 characters, without a full stop or a semicolon"
    """
    subject = next((line for line in message.splitlines() if line and not line.startswith("#")), "")
    if re.match(r"(Merge|Revert|fixup!|squash!) ", subject):
        return None
    if SUBJECT.fullmatch(subject) and len(subject) <= LONGEST_SUBJECT:
        return None
    return (
        f"C1 {subject!r}: write 'area: imperative summary', in {LONGEST_SUBJECT} characters, without a full stop or a semicolon"
    )


# --- Python


def _check_python(source: str) -> Iterator[tuple[int, str, str]]:
    tree, lines = ast.parse(source), source.splitlines()
    spans: list[tuple[int, int, int, int]] = []
    for node in _walk(tree):
        match node:
            case ast.Constant(value=str()) | ast.JoinedStr():
                spans.append((node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from _check_function(node)
                yield from _check_passage(_docstring(node, lines), is_document=True)
            case ast.ClassDef() | ast.Module():
                if isinstance(node, ast.ClassDef):
                    yield from _check_name(node.name, node.lineno)
                yield from _check_passage(_docstring(node, lines), is_document=True)
            case ast.Raise():
                yield from _check_messages(node)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in TEXTS:
                yield from _check_messages(node)
            case ast.keyword(arg="help", value=ast.Constant()):
                yield from _check_messages(node.value)
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield from _check_name(name, node.lineno)
    yield from _check_passage(_comments(lines, spans), is_document=False)


def _walk(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield every node that can hold prose or a name: `ast.walk` takes twice as long, most of it on contexts and operators."""
    todo = [tree]
    while todo:
        node = todo.pop()
        yield node
        for value in node.__dict__.values():
            if isinstance(value, list):
                todo.extend(each for each in value if isinstance(each, ast.AST))
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                todo.append(value)


def _check_function(node: Function) -> Iterator[tuple[int, str, str]]:
    if node.name.startswith("test_"):
        if len(node.name) > LONGEST_TEST_NAME:
            yield node.lineno, "T1", f"{node.name} has {len(node.name)} characters, at most {LONGEST_TEST_NAME}: state one fact"
        for found in PROSE.finditer(node.name.replace("_", " ")):
            yield node.lineno, "T1", f"{found.group()!r} in {node.name}: use {_word(found)}"
    else:
        yield from _check_name(node.name, node.lineno)
    words = re.findall(r"[\w`'.]*\w[\w`'.]*", (ast.get_docstring(node) or "").split("\n\n")[0])
    if words and len(words) < 4:
        yield node.lineno, "D2", f"{' '.join(words)!r} on {node.name}: say what the name does not say, or leave it out"
    elif words and {word.lower().rstrip("s.") for word in words} - STOP <= {
        part.lower().rstrip("s") for part in SPLIT.findall(node.name)
    }:
        yield node.lineno, "D2", f"{' '.join(words)!r} only repeats {node.name}: leave it out"


def _check_name(name: str, line: int) -> Iterator[tuple[int, str, str]]:
    if name in NAMES:
        yield line, "W2", f"'{name}' is retired: use {NAMES[name]}"
    for part in SPLIT.findall(name):
        if part.lower() in PARTS:
            yield line, "W2", f"'{part.lower()}' in {name}: use {PARTS[part.lower()]}"


def _docstring(node: Function | ast.ClassDef | ast.Module, lines: list[str]) -> Lines:
    """Return the lines of every string that stands as a statement in the body: the docstring, and those of attributes."""
    found: Lines = []
    for each in node.body:
        if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) and isinstance(each.value.value, str)):
            continue
        in_example = False
        for number in range(each.lineno, (each.end_lineno or each.lineno) + 1):
            line = lines[number - 1]
            in_example = bool(line.strip()) and (in_example or line.lstrip().startswith(">>>"))
            is_indented = len(line) - len(line.lstrip()) >= each.col_offset + 4
            found.append((number, "" if in_example or is_indented else line.strip().strip('"').removeprefix('r"""')))
        found.append((each.lineno, ""))
    return found


def _comments(lines: list[str], spans: list[tuple[int, int, int, int]]) -> Lines:
    found: Lines = []
    inside = {number for first, _, last, _ in spans for number in range(first + 1, last)}
    by_line: dict[int, list[tuple[int, int]]] = {}
    for first, start, last, end in spans:
        by_line.setdefault(first, []).append((start, end if last == first else 1 << 30))
        if last != first:
            by_line.setdefault(last, []).append((0, end))
    for number, line in enumerate(lines, 1):
        if "#" not in line or number in inside:
            continue
        data = line.encode()
        at = data.find(b"#")
        while at >= 0 and any(start <= at < end for start, end in by_line.get(number, ())):
            at = data.find(b"#", at + 1)
        if at < 0:
            continue
        text = data[at + 1 :].decode().strip()
        if data[:at].strip() or not found or found[-1][0] != number - 1:
            found.append((number, ""))
        found.append((number, "" if COMMENT_TO_SKIP.match(text) else text))
    return found


def _check_messages(node: ast.AST) -> Iterator[tuple[int, str, str]]:
    inner: set[int] = set()
    for each in ast.walk(node):
        if isinstance(each, ast.JoinedStr):
            inner.update(id(part) for part in ast.walk(each) if part is not each)
    for each in ast.walk(node):
        if id(each) in inner:
            continue
        if isinstance(each, ast.JoinedStr):
            text = "".join(part.value if isinstance(part, ast.Constant) else "`x`" for part in each.values)
        elif isinstance(each, ast.Constant) and isinstance(each.value, str):
            text = each.value
        else:
            continue
        if " " in text:
            yield from _check_passage([(each.lineno, text.replace("\n", " "))], is_document=False)


# --- SQL and Markdown


def _sql_comments(source: str) -> Lines:
    found: Lines = []
    for number, line in enumerate(source.splitlines(), 1):
        before, dashes, text = line.partition("--")
        if dashes and before.count("'") % 2 == 0:
            if before.strip():
                found.append((number, ""))
            found.append((number, text.strip()))
        else:
            found.append((number, ""))
    return found


def _markdown(source: str, path: str) -> Lines:
    found: Lines = []
    fence = ""
    for number, line in enumerate(source.splitlines(), 1):
        if path == "CHANGELOG.md" and re.match(r"## \[\d", line):
            break
        if match := FENCE.match(line):
            mark = match.group().strip()
            fence = "" if fence == mark else fence or mark
            found.append((number, ""))
        else:
            found.append((number, "" if fence else line))
    return found


# --- Prose


def _check_passage(lines: Lines, *, is_document: bool) -> Iterator[tuple[int, str, str]]:
    for paragraph in _paragraphs(lines):
        starts, text = [], ""
        for number, line in paragraph:
            starts.append((len(text), number))
            text += line + " "
        text = CODE.sub(lambda code: "`" + "_" * (len(code.group()) - 2) + "`", text)

        def line_of(offset: int, starts: list[tuple[int, int]] = starts) -> int:
            return next(number for start, number in reversed(starts) if start <= offset)

        for found in PROSE.finditer(text):
            word = WORDS[int((found.lastgroup or "w0")[1:])]
            if (word.in_docs_only and not is_document) or (word.but_not and re.search(word.but_not, _around(found))):
                continue
            yield line_of(found.start()), "W1", f"{found.group().strip(' .:;')!r}: use {word.instead}"
        offset = 0
        for sentence in SENTENCE_END.split(text):
            if (length := len(COUNTED.findall(sentence))) > MOST_WORDS:
                yield line_of(text.find(sentence, offset)), "S1", f"{length} words in a sentence ('{sentence[:50]}…'): split it"
            offset += len(sentence)


def _around(found: re.Match[str]) -> str:
    return found.string[max(0, found.start() - 9) : found.end() + 5]


def _word(found: re.Match[str]) -> str:
    return WORDS[int((found.lastgroup or "w0")[1:])].instead


def _paragraphs(lines: Lines) -> Iterator[Lines]:
    paragraph: Lines = []
    for number, line in lines:
        if (not line.strip() or ITEM.match(line)) and paragraph:
            yield paragraph
            paragraph = []
        if line.strip():
            paragraph.append((number, line))
    if paragraph:
        yield paragraph


# --- The tree


def files(root: Path, below: Iterable[str] = ()) -> list[str]:
    """Return the files that are read, or those of them that stand below the given paths."""
    code = [path for folder in FOLDERS for kind in ("*.py", "*.sql") for path in (root / folder).rglob(kind)]
    documents = [path for pattern in DOCUMENTS for path in root.glob(pattern)]
    names = sorted({path.relative_to(root).as_posix() for path in (*code, *documents)})
    wanted = [each.rstrip("/") for each in below]
    return [
        name
        for name in names
        if not name.startswith(SKIPPED) and (not wanted or any(name == each or name.startswith(f"{each}/") for each in wanted))
    ]


def check_tree(root: Path, below: Iterable[str] = ()) -> list[Hit]:
    """Return all hits of the tree, or those below some paths."""
    names = files(root, below)
    folders = [folder for folder in IMPERATIVE if (root / folder).is_dir()]
    ruff = [
        str(Path(sys.executable).parent / "ruff"),
        "check",
        "--select",
        "D401",
        "--output-format",
        "json",
        "--no-fix",
        *folders,
    ]
    with subprocess.Popen(ruff, cwd=root, stdout=subprocess.PIPE) as process:
        found = [hit for name in names for hit in check_text(name, (root / name).read_text(encoding="utf-8"))]
        output, _ = process.communicate()
    for each in json.loads(output or "[]"):
        name = Path(each["filename"]).relative_to(root.resolve()).as_posix()
        if each["code"] == "D401" and name in names:
            found.append(Hit(name, each["location"]["row"], "D1", each["message"] + ": begin with a verb in the imperative"))
    return sorted(found)


def main(arguments: list[str]) -> int:
    """Do what the arguments ask for; 1 when a rule is broken."""
    if arguments[:1] == ["--commit-msg"]:
        problem = check_subject(Path(arguments[1]).read_text(encoding="utf-8"))
        print(*filter(None, [problem]), sep="\n", end="\n" if problem else "")
        return 1 if problem else 0
    hits = check_tree(ROOT, arguments)
    for hit in hits:
        print(hit)
    if hits:
        print("write it plainly, or allow it with a reason: `# language: word – why`")
    return 1 if hits else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
