"""What a view is asked, what it returns, and the values that tables on several pages share."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from holdfast._core.answers import QueueView
from holdfast._core.job import State
from holdfast._core.queue_counts import MOST_COUNTED
from holdfast._core.view import JobView
from holdfast._engine.operators.operators import client_of
from holdfast.app import App
from holdfast.dashboard.actions import Button
from holdfast.dashboard.words import FAMILIES, Moment, short
from holdfast.http.permissions import READS, Action
from holdfast.http.redact import Redact, no_more


class Asked(Struct, frozen=True, kw_only=True):
    """A request as views need it. ``id``: of the job or workflow in the path. ``may``: the actions that its sender may take.
    ``counted``: returns the queues, as pages share them. ``is_live``: the page renews itself, rather than being opened."""

    app: App
    now: datetime
    query: Mapping[str, str] = {}
    id: str = ""
    may: frozenset[Action] = READS
    redact: Redact = no_more
    counted: Callable[[], Awaitable[Sequence[QueueView]]] | None = None
    is_live: bool = False

    async def queues(self) -> Sequence[QueueView]:
        """Return the queues, with all jobs in them that have not finished, and of each finished state at most ``MOST_COUNTED``."""
        return await (client_of(self.app.jobs).queues(MOST_COUNTED) if self.counted is None else self.counted())

    def allows(self, action: Action) -> bool:
        """Return whether the reader may take an action here."""
        return action in self.may


class Page(Struct, frozen=True, kw_only=True):
    """A page before it is rendered. ``section``: the entry of the navigation that it belongs to. ``has_form``: it gets the token of a
    session, without which no action is accepted. ``moved_to``: the path of another page, to which the browser is sent."""

    template: str
    title: str
    section: str = ""
    values: dict[str, Any] = {}
    status: int = 200
    has_form: bool = False
    moved_to: str = ""


class Glyph(Struct, frozen=True):
    """A state with the family that gives its colour."""

    state: str
    family: str

    @classmethod
    def of(cls, state: State) -> "Glyph":
        """Return how a page shows the state."""
        return cls(state.value, FAMILIES[state])


class Column(Struct, frozen=True):
    """The head of a column in a table."""

    name: str
    is_number: bool = False


class Cell(Struct, frozen=True, kw_only=True):
    """One cell of a table. ``link``: a path of the dashboard. ``more``: what follows in small type. ``style``: names of classes.
    ``buttons``: actions, by which it ends. ``spark``: the path of a small line instead of a string, which ``text`` describes."""

    text: str
    link: str = ""
    more: str = ""
    glyph: str = ""
    family: str = ""
    iso: str = ""
    style: str = ""
    spark: str = ""
    buttons: Sequence[Button] = ()


def text(value: object, *, style: str = "", link: str = "", more: str = "") -> Cell:
    """Return a cell with a string, or with a dash for nothing."""
    return Cell(text="–" if value is None or value == "" else str(value), style=style, link=link, more=more)


def figure(value: object) -> Cell:
    """Return a cell with a number or a duration."""
    return text(value, style="n")


def when(at: Moment | None, *, is_number: bool = True) -> Cell:
    """Return a cell with a time."""
    style = "n" if is_number else ""
    return Cell(text="–", style=style) if at is None else Cell(text=at.text, iso=at.iso, style=style)


def state(of: State) -> Cell:
    """Return a cell with a state."""
    return Cell(text=of.value, glyph=of.value, family=FAMILIES[of])


def job(of: JobView, folder: str = "/jobs") -> Cell:
    """Return a cell that leads to a job."""
    return Cell(text=of.task, link=f"{folder}/{of.id}", more=short(of.id))


def acting(asked: Asked) -> list[str]:
    """Return the head of the column of actions, if the reader may act at all."""
    return [] if asked.may <= READS else ["actions"]


def acts(asked: Asked, buttons: Sequence[Button]) -> list[Cell]:
    """Return the cell of the column of actions, if there is one."""
    return [Cell(text="" if buttons else "–", buttons=buttons) for _ in acting(asked)]


def columns(*names: str) -> list[Column]:
    """Return the heads of columns; a name that ends in # is that of a column of numbers."""
    return [Column(name.rstrip("#"), name.endswith("#")) for name in names]


def jobs_where(**conditions: str | None) -> str:
    """Return the path of the list of the jobs that meet the conditions."""
    given = "&".join(f"{name}={quote(value, safe='')}" for name, value in conditions.items() if value)
    return f"/jobs?{given}" if given else "/jobs"


def table(title: str, section: str, heads: Sequence[Column], rows: Sequence[Sequence[Cell]], **more: Any) -> Page:
    """Return a page with one table. ``nothing``: what it shows without rows."""
    values = {"columns": heads, "rows": rows, "lead": "", "older": "", "is_live": True, "nothing": "Nothing to show.", **more}
    return Page(template="table.html", title=title, section=section, values=values)


def message(title: str, text: str, remedy: str = "", *, status: int = 503) -> Page:
    """Return a page with the reason why there is nothing to show, and what to do."""
    glyph, family = ("silent", "failed") if status == 503 else ("blocked", "waiting")
    values = {"text": text, "remedy": remedy, "glyph": glyph, "family": family}
    return Page(template="message.html", title=title, values=values, status=status)
