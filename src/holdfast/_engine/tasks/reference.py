"""What a job of a workflow lacks until another member has its result."""

from uuid import UUID

from msgspec import Struct


class Reference(Struct, frozen=True):
    """The result of a member with the name ``node``, or what is at ``path`` in it. ``is_each``: one item of it, which is a list."""

    job: UUID
    path: tuple[str, ...] = ()
    is_each: bool = False
    node: str = ""
