"""The users of the project as the dashboard sees them, and what their permissions allow."""

from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request

from holdfast.http.identity import Identity, Role
from holdfast.http.permissions import Action

PERSON: Final = "holdfast.django.person"
"""The key of a request's scope that has who sent it."""
PERMISSIONS: Final = ("view", "operate", "delete", "payload")
ROLES: Final[Mapping[str, Role]] = {"view": Role.VIEWER, "operate": Role.OPERATOR, "delete": Role.ADMIN, "payload": Role.OPERATOR}
"""The least role of each permission. ``allows`` then refuses what that role may do beyond it."""
_NEEDED: Final[Mapping[str, str]] = {
    Action.READ: "view",
    **dict.fromkeys((Action.READ_PAYLOAD, Action.REVEAL), "payload"),
    **dict.fromkeys((Action.DELETE, Action.PURGE, Action.RESET), "delete"),
}


class Person(Identity, frozen=True):
    """A user of the project, with the permissions that Holdfast knows."""

    permissions: frozenset[str] = frozenset()


def person_of(user: Any) -> Person | None:
    """Return who a user is, or ``None`` for all but active staff with the permission ``holdfast.view``. It may ask Django's database."""
    if not (user.is_active and user.is_staff):
        return None
    has = frozenset(name for name in PERMISSIONS if user.has_perm(f"holdfast.{name}"))
    return Person(user.get_username(), [ROLES[name] for name in has], has) if "view" in has else None


def django(request: Request) -> Identity | None:
    """Recognise the user whom the view of ``holdfast.integrations.django.urls`` has found: an authenticator as ``Dashboard`` takes it."""
    found = request.scope.get(PERSON)
    return found if isinstance(found, Person) else None


def allows(identity: Identity, action: str, target: str) -> bool:
    """Return whether the user's permissions allow an action."""
    del target
    return isinstance(identity, Person) and _NEEDED.get(action, "operate") in identity.permissions
