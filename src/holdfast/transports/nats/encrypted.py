"""A client of NATS that sends nothing before its connection is encrypted."""

from nats.aio.client import Client

UNENCRYPTED = (
    "the server does not demand TLS, so Holdfast sent it no password: write a tls block into the server's configuration, "
    "or nats:// into the transport's URL"
)


class EncryptedClient(Client):
    """The client for ``tls://``: that of nats-py sends a password in plain text to a server that does not demand TLS."""

    def _connect_command(self) -> bytes:
        if not self._server_info.get("tls_required"):
            raise PermissionError(UNENCRYPTED)
        return super()._connect_command()
