"""One line that chooses jobs, such as ``state:failed task:sync_orders since:24h KeyError``, as conditions of a selector, and back."""

import shlex
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from holdfast._core.durations import seconds
from holdfast.errors import ConfigurationError

NAMES: Final = (
    *("state", "task", "queue", "tag", "reason", "key", "error"),
    *("worker", "workflow", "schedule", "rescued", "since", "older"),
)
"""The words before a colon. What has none is looked for in the task's name and in the message of the error."""
TEXT: Final = "text"
MOST: Final = 1000
"""The characters of a line that are read."""


def conditions_in(line: str) -> dict[str, str]:
    """Return the conditions of a line. Raises ``ConfigurationError``, with every problem, for one that cannot be read.

    >>> conditions_in('state:failed,held task:mail since:24h "no such host"')
    {'state': 'failed,held', 'task': 'mail', 'since': '24h', 'text': 'no such host'}
    """
    try:
        words = shlex.split(line[:MOST])
    except ValueError:
        raise ConfigurationError(["filter: a quotation mark is open: close it"]) from None
    found, rest, problems = dict[str, str](), list[str](), list[str]()
    for word in words:
        name, colon, value = word.partition(":")
        if not colon or not value or not name.isidentifier() or ":" in value[:1]:
            rest.append(word)
        elif name not in NAMES:
            near = get_close_matches(name, NAMES, 1)
            meant = f"{near[0]}:{value}" if near else f"one of {', '.join(NAMES)}, or quote it: {word!r}"
            problems.append(f"filter: there is no {name!r}: write {meant}")
        elif name in found:
            problems.append(f"filter: {name} is there twice: write {name}:{found[name]},{value}")
        else:
            found[name] = value
    for name in ("since", "older"):
        try:
            seconds(found.get(name, "1s"))
        except ValueError as error:
            problems.append(f"filter: {name}: {error}")
    if problems:
        raise ConfigurationError(problems)
    return found | ({TEXT: " ".join(rest)} if rest else {})


def line_of(conditions: Mapping[str, str]) -> str:
    """Return the line of conditions.

    >>> line_of({"state": "failed", "text": "no such host"})
    'state:failed no such host'
    """
    words = [shlex.quote(f"{name}:{value}") for name in NAMES if (value := conditions.get(name))]
    text = conditions.get(TEXT, "")
    is_plain = text and not any(word.partition(":")[0] in NAMES or shlex.quote(word) != word for word in text.split())
    return " ".join([*words, *([text if is_plain else shlex.quote(text)] if text else [])])
