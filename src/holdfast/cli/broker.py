"""``holdfast broker``: serve a store over HTTP."""

from typing import TYPE_CHECKING

import click

from holdfast._processes.logs import LEVELS
from holdfast.cli.options import app_or_store_options, url_option
from holdfast.cli.stderr import discard_unwritable, open_missing, write_stderr

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.broker.serving import Listening
    from holdfast.http.identity import Authenticate


@click.command()
@app_or_store_options
@url_option
@click.option("--listen", "--bind", default="127.0.0.1:7700", show_default=True, metavar="HOST:PORT", help="Where to listen.")
@click.option(
    "--advertise", metavar="URL", help="Where clients reach this broker, if it is not where it listens: for stores in a bucket."
)
@click.option("--tokens", metavar="FILE", help="The tokens that may connect: a line NAME ROLE[,ROLE] SHA256 for each token.")
@click.option("--new-token", metavar="NAME=ROLE[,ROLE]", help="Print a new token and its line for --tokens, and end.")
@click.option("--tls-cert", metavar="FILE", help="The certificate of the server, with those between it and its authority.")
@click.option("--tls-key", metavar="FILE", help="The private key of the certificate.")
@click.option("--client-ca", metavar="FILE", help="Accept only clients with a certificate of this authority.")
@click.option(
    "--rate", type=click.IntRange(min=1), metavar="N", help="The requests a second that each token may make to the API."
)
@click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True, help="How much to log.")
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="For people or machines."
)
def broker(
    target: str | None,
    url: str | None,
    listen: str,
    advertise: str | None,
    tokens: str | None,
    new_token: str | None,
    *,
    tls_cert: str | None,
    tls_key: str | None,
    client_ca: str | None,
    rate: int | None,
    log_level: str,
    log_format: str,
) -> None:
    """Serve a store to workers and producers over HTTP, until Ctrl-C or SIGTERM.

    They use its URL, such as http://127.0.0.1:7700, instead of the store's, and a token from HOLDFAST_TOKEN. It also
    recovers jobs of lost workers, expires and prunes. Without --tokens only processes of this machine can connect.
    Of several brokers on one bucket one leads, and the others stand by.
    """
    from holdfast._processes.loading import opened
    from holdfast._processes.logs import configure_logs

    open_missing()
    configure_logs(log_level, log_format)
    _require_extra()
    if new_token is not None:
        _print_token(new_token)
        return
    from holdfast._core.schemes import BUCKETS
    from holdfast.broker.serving import Listening
    from holdfast.http.tokens import Tokens

    listening = Listening.of(listen, tls_cert, tls_key, client_ca, is_open=tokens is None, advertised=advertise)
    authenticate = None if tokens is None else Tokens.read(tokens)
    with opened(target, url, makes=True) as app:
        if app.settings.url.partition("://")[0] in BUCKETS:
            listening.require_address()
        _serve(app, listening, authenticate, rate)
    discard_unwritable()


def _require_extra() -> None:
    from importlib.util import find_spec

    from holdfast.errors import MissingExtra

    for module in ("starlette", "uvicorn"):
        if find_spec(module) is None:
            raise MissingExtra(module, "broker")


def _print_token(text: str) -> None:
    from holdfast._system.clock import SystemRandomness
    from holdfast.http.tokens import new_token

    name, _, roles = text.partition("=")
    token, line = new_token(name, roles, SystemRandomness())
    click.echo(f"token, for HOLDFAST_TOKEN: {token}")
    click.echo(f"line, for --tokens:        {line}")


def _serve(app: "App", listening: "Listening", authenticate: "Authenticate | None", rate: int | None) -> None:
    import asyncio

    from holdfast._system.ending_signals import on_ending_signals
    from holdfast.app import environment_of
    from holdfast.broker.broker import Broker
    from holdfast.broker.serving import Server
    from holdfast.http.identity import local
    from holdfast.settings import public_url

    async def serve() -> None:
        environment = environment_of(app)
        try:
            if not hasattr(environment.store, "stand"):
                await environment.store.workers()  # a store that cannot be used is an error now, and not at the first request
            served = Broker(environment, app.settings, registry=app.registry, authenticate=authenticate or local, rate=rate)
            server = Server(served, listening, say)
            on_ending_signals(asyncio.get_running_loop(), server.stop)
            await server.run_until_stopped()
        finally:
            await app.aclose()

    def say(url: str) -> None:
        write_stderr(f"the broker of {public_url(app.settings.url)} listens at {url}")

    asyncio.run(serve())
