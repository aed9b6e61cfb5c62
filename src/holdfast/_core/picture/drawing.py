"""The one door to pictures of workflows."""

from datetime import datetime
from typing import Literal

from holdfast._core.picture.mermaid import mermaid_of
from holdfast._core.picture.svg import svg_of
from holdfast._core.picture.text import text_of
from holdfast._core.workflow_view import WorkflowView
from holdfast.errors import ConfigurationError

Form = Literal["text", "svg", "mermaid"]

_FORMS = {"text": text_of, "svg": svg_of, "mermaid": mermaid_of}


def draw(view: WorkflowView, form: Form, now: datetime) -> str:
    """Return a picture of a workflow; ``now``: until when running nodes have run. ``ConfigurationError`` for an unknown form."""
    if form not in _FORMS:
        raise ConfigurationError([f"{form!r} is not a form of a picture: use 'text', 'svg' or 'mermaid'"])
    return _FORMS[form](view, now)
