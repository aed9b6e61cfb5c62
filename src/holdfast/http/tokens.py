"""Tokens in a file: each line has a name, its roles and the SHA-256 digest of a token. The file has no token itself."""

import os
import stat
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from shlex import quote
from typing import Self

from starlette.requests import Request

from holdfast._ports.clock import Randomness
from holdfast.errors import ConfigurationError
from holdfast.http.identity import Identity, Role

_LOOKS = "write NAME ROLE[,ROLE] SHA256, as `holdfast broker --new-token NAME=ROLE` prints it"
_DIGEST = 64


class Tokens:
    """An authenticator by the bearer token of a request.

    >>> from holdfast._system.clock import SystemRandomness
    >>> token, line = new_token("mailer", "worker", SystemRandomness())
    >>> Tokens.parse(line).identity(token).name
    'mailer'
    """

    def __init__(self, known: dict[str, Identity]) -> None:
        self._known = known

    @classmethod
    def read(cls, path: str, option: str = "--tokens") -> Self:
        """Read a file. Raises ``ConfigurationError`` if another user may read it, or a line is wrong."""
        file = Path(path)
        try:
            mode, text = stat.S_IMODE(file.stat().st_mode), file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = (isinstance(error, OSError) and error.strerror) or error
            raise ConfigurationError([f"{option}: {path} cannot be read: {why}; {_LOOKS}"]) from None
        if os.name == "posix" and mode & 0o077:
            raise ConfigurationError([f"{option}: other users may read {path}: run `chmod 600 {quote(str(path))}`"])
        return cls.parse(text, option)

    @classmethod
    def parse(cls, text: str, option: str = "--tokens") -> Self:
        """Read lines; empty ones and those that begin with # do not count. Raises ``ConfigurationError`` with every problem."""
        known, problems = dict[str, Identity](), list[str]()
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip() and not line.startswith("#"):
                try:
                    name, roles, digest = line.split()
                    known[_digest(digest)] = Identity(name, _roles(roles))
                except ValueError as error:
                    problems.append(
                        f"{option}, line {number}: {error if 'role' in str(error) else 'it cannot be read'}; {_LOOKS}"
                    )
        if not known and not problems:
            problems.append(f"{option}: there is no token in it; {_LOOKS}")
        if problems:
            raise ConfigurationError(problems)
        return cls(known)

    def __call__(self, request: Request) -> Identity | None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        return self.identity(token) if scheme.lower() == "bearer" else None

    def identity(self, token: str) -> Identity | None:
        """Return whose token it is. The time that it takes shows nothing about the tokens."""
        digest, found = sha256(token.strip().encode(errors="replace")).hexdigest(), None
        for known, identity in self._known.items():
            if compare_digest(known, digest):
                found = identity
        return found


def new_token(name: str, roles: str, chance: Randomness) -> tuple[str, str]:
    """Return a new token, with 244 random bits, and its line for the file. Raises ``ConfigurationError`` for an unknown role."""
    try:
        _roles(roles)
    except ValueError as error:
        raise ConfigurationError([f"--new-token: {error}"]) from None
    if not name or name.split() != [name] or name.startswith("#"):
        raise ConfigurationError([f"--new-token: {name!r} is not a name: write one word, such as mailer=worker"])
    token = f"{chance.uuid4().hex}{chance.uuid4().hex}"
    return token, f"{name} {roles} {sha256(token.encode()).hexdigest()}"


def _roles(text: str) -> frozenset[Role]:
    if unknown := sorted({each for each in text.split(",") if each not in set(Role)}):
        raise ValueError(f"{unknown[0]!r} is not a role: use {', '.join(Role)}")
    return frozenset(Role(each) for each in text.split(","))


def _digest(text: str) -> str:
    if len(text) != _DIGEST:
        raise ValueError("it is not a SHA-256 digest")
    return f"{int(text, 16):064x}"
