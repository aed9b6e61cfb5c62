"""The App of a show, on any store; on a server, workers are distinguished as if they were on two machines."""

from holdfast import App

TRANSPORT = "HOLDFAST_DEMO_TRANSPORT"
TTL = "3s"


def is_served(url: str) -> bool:
    """Whether a server keeps the jobs, so that machines can share them.

    >>> is_served("postgresql://db/jobs"), is_served("sqlite:///jobs.db")
    (True, False)
    """
    return url.partition("://")[0] not in ("sqlite", "memory")


def open_app(url: str, transport: str | None = None) -> App:
    """Open an App on that store; on a server as if each supervisor had a separate machine, where only leases show which worker died."""
    if is_served(url):
        return App(url, transport=transport, ttl=TTL, recovery_interval="0.5s", reconcile="off")
    return App(url, transport=transport)
