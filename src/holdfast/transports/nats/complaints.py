"""Why JetStream hands out no jobs, for people: what the server answered, and what ends it. Pure functions."""

from typing import Final

from nats.js.errors import APIError, ServiceUnavailableError

from holdfast._core.text import printable

_NEEDS_CLUSTER: Final = 10074
_TAKEN: Final = 10065
_FULL: Final = frozenset({10023, 10028, 10047, 10122})
_REMEDIES: Final = {
    _TAKEN: "name another stream at the end of the transport's URL, as ?stream=jobs",
    _NEEDS_CLUSTER: "leave replicas out of the transport's URL, or name a cluster",
    **dict.fromkeys(_FULL, "raise max_file_store in the jetstream block of the server's configuration"),
}


def refusal(error: Exception) -> str:
    """Return why the server refuses this address, with the remedy; empty if it does not.

    >>> refusal(Exception("nats: 'Authorization Violation'"))
    'Authorization Violation: name a user and its password in the URL, nats://user:password@host:4222, or a token, nats://token@host:4222'
    """
    if "authorization violation" not in str(error).lower():
        return ""
    who = "a user and its password in the URL, nats://user:password@host:4222, or a token, nats://token@host:4222"
    return f"Authorization Violation: name {who}"


def complaint(error: Exception, stream: str) -> str:
    """Return what the server answered, or that it did not, and the remedy if there is one."""
    if isinstance(error, ServiceUnavailableError):
        answer = error.description if error.err_code else "the server has no JetStream"
        on = "start it as `nats-server -js`, or write `jetstream: enabled` into the account of this user"
        return f"{printable(str(answer))}: {on}"
    if isinstance(error, APIError) and error.description:
        remedy = _REMEDIES.get(error.err_code or 0)
        return printable(error.description) + (f": {remedy}" if remedy else "")
    if isinstance(error, TimeoutError):
        rights = f"publish to `$JS.API.>`, `$JS.ACK.>` and `{stream}.>`, subscribe to `_INBOX.>` and `{stream}.>`"
        return f"JetStream does not answer: if the server is not overloaded, let this user {rights}"
    return printable(f"{type(error).__name__}: {error}")
