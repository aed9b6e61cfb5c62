"""obstore's client for a bucket: the one place that knows its settings."""

from datetime import timedelta
from importlib import import_module
from shlex import quote
from typing import TYPE_CHECKING, Any

from holdfast._core.bucket_url import BucketUrl
from holdfast._forks import Forked, register
from holdfast.errors import ConfigurationError, MissingExtra

if TYPE_CHECKING:
    from obstore.store import AzureStore, GCSStore, S3Store

    Client = AzureStore | GCSStore | S3Store

CONNECT_TIMEOUT = 3.0


class Runtime(Forked):
    """The driver's threads, of which a process has one set. A forked child has none, and a call in it would never end."""

    def __init__(self) -> None:
        self._is_used = False
        self.is_lost = False
        register(self)

    def use(self) -> None:
        """Start it; ``ConfigurationError`` in a process that was forked from one that had started it."""
        if self.is_lost:
            remedy = "make the first call after the fork, or start the process by spawn"
            raise ConfigurationError(
                [f"a bucket was used before this process was forked, which the driver does not survive: {remedy}"]
            )
        self._is_used = True

    def after_fork_in_child(self) -> None:
        """Note that the threads are gone."""
        self.is_lost = self._is_used


RUNTIME = Runtime()


def open_client(url: BucketUrl, timeout: float) -> "Client":
    """Return a client with separate connections; credentials come from the environment or from ``?profile=``. It connects later."""
    try:
        from obstore.exceptions import BaseError
    except ModuleNotFoundError as error:
        raise MissingExtra("obstore", "objects") from error
    try:
        return _client(url, timeout)
    except BaseError:
        # Without the cause: the driver quotes settings of the environment.
        problem = f"{url.public}: the settings or credentials of the environment cannot be used: {url.credentials}"
        raise ConfigurationError([problem]) from None


def _client(url: BucketUrl, timeout: float) -> "Client":
    from obstore.store import AzureStore, GCSStore, S3Store

    shared: dict[str, Any] = {
        "prefix": url.prefix or None,
        "client_options": {
            "allow_http": (url.endpoint or "").startswith("http://"),
            "connect_timeout": timedelta(seconds=min(CONNECT_TIMEOUT, timeout)),
            "timeout": timedelta(seconds=timeout),
        },
        # The driver would send a conditional write again after a reset or a 500, and report its own success as a lost race.
        "retry_config": {"max_retries": 0},
    }
    if url.scheme == "gs":
        return GCSStore(url.bucket, **_given(base_url=url.endpoint), **shared)
    if url.scheme == "az":
        return AzureStore(url.bucket, account_name=url.account, **_given(endpoint=url.endpoint), **shared)
    own = _given(endpoint=url.endpoint, region=url.region)
    if url.profile is not None:
        own["credential_provider"] = _credentials_of_profile(url.profile)
    if url.endpoint is not None:
        own["virtual_hosted_style_request"] = False
    # Bulk deletes need another permission and report failures within a success.
    return S3Store(url.bucket, conditional_put="etag", disable_bulk_delete=True, **own, **shared)


def _given(**options: str | None) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _credentials_of_profile(profile: str) -> Any:
    """Ask boto3: the driver itself reads neither ``~/.aws/config`` nor single sign-on."""
    try:
        boto3, auth = import_module("boto3"), import_module("obstore.auth.boto3")
    except ModuleNotFoundError as error:
        remedy = "`pip install boto3`, or leave out ?profile= and set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        raise ConfigurationError([f"?profile={profile} needs boto3, which is not installed: {remedy}"]) from error
    try:
        return auth.Boto3CredentialProvider(boto3.Session(profile_name=profile))
    except Exception:
        # Without the cause: it is another library's text about credentials.
        problem = (
            f"?profile={profile}: it has no credentials: check `aws configure list --profile {quote(profile)}`, or sign in again"
        )
        raise ConfigurationError([problem]) from None
