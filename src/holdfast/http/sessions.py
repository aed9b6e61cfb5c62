"""Sessions of browsers: a cookie, and the token that each form of that session has. Another site can send neither."""

import hmac
from hashlib import sha256
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from holdfast._ports.clock import Randomness

HEADER: Final = "x-holdfast-token"
FIELD: Final = "token"
_NAME: Final = "holdfast_session"
_DIGITS: Final = 64


class Sessions:
    """Names sessions and signs their tokens. Only the cookie has the secret of a session, so any process with ``key`` accepts it."""

    def __init__(self, key: str, chance: Randomness) -> None:
        self._key, self._chance = sha256(f"holdfast sessions\0{key}".encode()).digest(), chance

    def of(self, request: Request) -> str | None:
        """Return the session of a request."""
        found = request.cookies.get(_name(request), "")
        return found if len(found) == _DIGITS and found.isalnum() else None

    def new(self) -> str:
        """Return a new session, with 244 random bits."""
        return self._chance.uuid4().hex + self._chance.uuid4().hex

    def token(self, session: str) -> str:
        """Return the token of a session."""
        return hmac.new(self._key, session.encode(), sha256).hexdigest()

    def accepts(self, request: Request, token: str | None) -> bool:
        """Return whether the token is that of the request's session."""
        session = self.of(request)
        return session is not None and token is not None and hmac.compare_digest(self.token(session).encode(), token.encode())

    def keep(self, request: Request, session: str, answer: Response) -> None:
        """Have the browser keep a session until it ends."""
        is_secure = request.url.scheme == "https"
        path = "/" if is_secure else quote(request.scope.get("root_path", "")) or "/"
        answer.set_cookie(_name(request), session, path=path, secure=is_secure, httponly=True, samesite="strict")


def _name(request: Request) -> str:
    return f"__Host-{_NAME}" if request.url.scheme == "https" else _NAME
