"""Names and strings as they are written in SQL, and which name a caller may have meant by one that does not exist."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path


def quoted(name: str) -> str:
    """Quote a name of any spelling, exactly as it was given.

    >>> print(quoted('when "due"?'))
    "when ""due""?"
    """
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def nearest(name: str, known: Iterable[str]) -> str:
    """Suggest a name, for the end of a message.

    >>> nearest("Statsu", ["status", "id"])
    'did you mean "status"?'
    >>> nearest("zzz", ["status", "id"])
    'it has "status", "id"'
    """
    names = list(known)
    folded = {each.casefold(): each for each in names}
    if close := get_close_matches(name.casefold(), folded, n=1):
        return f"did you mean {quoted(folded[close[0]])}?"
    return f"it has {', '.join(map(quoted, names[:20]))}" if names else "it has none"


class Queries:
    """The SQL files of a folder. ``parts``: what replaces each ``{name}`` in them."""

    def __init__(self, folder: Path, parts: Mapping[str, str]) -> None:
        self._folder, self._parts = folder, parts
        self._read: dict[str, str] = {}

    def of(self, name: str, **more: str) -> str:
        """Return the text of the file with that name; ``more``: further replacements, for this file only."""
        text = self._read.get(name)
        if text is None:
            text = self._read[name] = (self._folder / f"{name}.sql").read_text(encoding="utf-8")
        return text.format_map({**self._parts, **more})


def ended(sql: str) -> str:
    """End the user's SQL so that more may follow: a comment at its end would swallow that.

    >>> ended("id"), ended("id -- oldest")
    ('id', 'id -- oldest\\n')
    """
    return f"{sql}\n" if "--" in sql else sql
