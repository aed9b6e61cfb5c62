"""Whether a request is accepted: who sends it, what its role and ``authorize`` allow, and whether a page of another site sent it."""

from typing import Final

from starlette.requests import Request

from holdfast.http.guard import foreign, refusal
from holdfast.http.identity import LOCAL, Authenticate, Identity, Role
from holdfast.http.openapi import PREFIX
from holdfast.http.permissions import READS, ROLES, Action, Authorize, any_target
from holdfast.http.problems import ApiError
from holdfast.http.sessions import HEADER, Sessions

SENDER: Final = "holdfast.sender"
"""The key of a request's scope that has the name of its sender, once it is known."""


class Access:
    """The rules of one mount. ``authenticate=None``: it is open to this machine, and to nothing else.

    ``is_read_only``: it refuses every change. ``sessions``: changes that a browser sends must have the token of its session.
    """

    def __init__(
        self,
        authenticate: Authenticate | None,
        *,
        authorize: Authorize | None = None,
        is_read_only: bool = False,
        sessions: Sessions | None = None,
    ) -> None:
        self._authenticate, self._authorize = authenticate, authorize or any_target
        self.is_read_only, self.sessions = is_read_only, sessions

    @property
    def is_local(self) -> bool:
        """Whether it answers this machine only."""
        return self._authenticate is None or bool(getattr(self._authenticate, "is_local", False))

    @property
    def challenge(self) -> str:
        """The scheme by which a sender may show who it is, as ``WWW-Authenticate`` names it."""
        return str(getattr(self._authenticate, "challenge", "Bearer"))

    def identity(self, request: Request) -> Identity:
        """Return who sends a request. Raises ``ApiError`` for a sender that is unknown, or elsewhere."""
        if self.is_local:
            why = refusal(None if request.client is None else request.client.host, request.headers.raw)
            if why is not None:
                raise ApiError(403, "not_local", why, "ask it from this machine, by its own address")
        identity = LOCAL if self._authenticate is None else self._authenticate(request)
        if identity is None:
            raise ApiError(401, "unauthorized", "the token is missing or unknown", "send the header Authorization: Bearer TOKEN")
        request.scope[SENDER] = identity.name
        return identity

    def require(self, identity: Identity, action: Action, target: str, roles: frozenset[Role] | None = None) -> None:
        """Raise ``ApiError`` unless the sender may take the action. ``roles``: those that may, if not those of the action."""
        allowed = ROLES[action] if roles is None else roles
        if not identity.has(allowed):
            names = ", ".join(sorted(allowed))
            raise ApiError(403, "forbidden", f"{identity.name} may not {action} {target}", f"that needs one of the roles {names}")
        if self._authorize(identity, action, target) is not True:  # an awaitable is true, too
            raise ApiError(403, "forbidden", f"{identity.name} may not {action} {target}", "ask who runs this dashboard")

    def require_change(self, request: Request, token: str | None = None) -> None:
        """Raise ``ApiError`` for a change that this mount does not make, or that the sender may not know of.

        ``token``: that of a form. A program sends neither ``Origin`` nor a session, so it needs no token.
        """
        if self.is_read_only:
            raise ApiError(403, "read_only", "it only reads here", "start it with actions switched on")
        if (why := foreign(request.headers)) is not None:
            raise ApiError(403, "foreign_origin", why, "send it from a page of this address")
        if self.sessions is None or (token is None and not _is_of_browser(request)):
            return
        if not self.sessions.accepts(request, request.headers.get(HEADER) if token is None else token):
            raise ApiError(403, "no_token", "it lacks the token of its session", "load the page again, and send the form from it")

    def may(self, identity: Identity, target: str) -> frozenset[Action]:
        """Return the actions that the sender may take on the target."""
        actions = READS if self.is_read_only else ROLES.keys()
        return frozenset(
            action for action in actions if identity.has(ROLES[action]) and self._authorize(identity, action, target) is True
        )


def target_of(request: Request) -> str:
    """Return the path that a request is for, as ``authorize`` sees it: decoded, and below the path where this is mounted."""
    path = str(request.scope["path"]).removeprefix(str(request.scope.get("root_path", "")).rstrip("/"))
    return path.removeprefix(PREFIX) if path.startswith(f"{PREFIX}/") else path


def _is_of_browser(request: Request) -> bool:
    return any(name in request.headers for name in ("origin", "sec-fetch-site", "cookie"))
