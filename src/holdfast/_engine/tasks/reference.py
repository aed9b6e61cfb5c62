"""A value that stands for the result of a workflow's member in the arguments of another one."""

from uuid import UUID

from msgspec import Struct


class Reference(Struct, frozen=True):
    """The result of a member, or what is at ``path`` in it. ``is_each``: one item of it, which is a list."""

    job: UUID
    path: tuple[str, ...] = ()
    is_each: bool = False
