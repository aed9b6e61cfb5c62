"""The broker: a store served over HTTP, to workers and producers without its credentials."""

from starlette.applications import Starlette

from holdfast.app import App, environment_of
from holdfast.broker.broker import Broker
from holdfast.http.identity import Authenticate, local


def application(
    app: App,
    *,
    authenticate: Authenticate = local,
    maintains: bool = True,
    rate: int | None = None,
    url: str | None = None,
) -> Starlette:
    """Return a broker for the store of an App, as an ASGI application for any server.

    ``authenticate`` gets each request, and returns an ``Identity`` or ``None``; by default only this machine's own requests are
    accepted. ``maintains=False``: leave recovery, expiry and pruning to the supervisors of workers. ``rate``: the requests a second
    that each sender may make to the API; beyond them it gets the status 429. ``url``: where clients reach it. On a bucket, the brokers
    elect one of those that have a URL.

    >>> application(App("memory://")).routes[0].path
    '/port/{version}/{verb}'
    """
    environment, registry = environment_of(app), app.registry
    broker = Broker(
        environment, app.settings, registry=registry, authenticate=authenticate, maintains=maintains, rate=rate, url=url
    )
    return broker.application()
