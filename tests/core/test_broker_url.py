"""The URLs of brokers that are accepted, and the errors for all others, which show no secret."""

import pytest

from holdfast import App, ConfigurationError
from holdfast._core.broker_url import BrokerUrl, problems_of_broker_url

SECRET = "wJalrXUtnFEMIK7MDENG"


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        ("http://broker", ("http://broker:7700",)),
        ("http://127.0.0.1:80/", ("http://127.0.0.1:80",)),
        ("https://a.example:7701,b.example", ("https://a.example:7701", "https://b.example:7700")),
        ("http://[::1]:7700", ("http://[::1]:7700",)),
        ("http://[::1]", ("http://[::1]:7700",)),
    ],
)
def test_every_form_of_a_broker_is_read(text: str, servers: tuple[str, ...]) -> None:
    assert problems_of_broker_url(text) == []
    assert BrokerUrl.of(text).servers == servers


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ftp://broker", "its scheme is not http or https"),
        ("http://", "a broker is host:port"),
        ("http://a,,b", "a broker is host:port"),
        ("http://a b", "a broker is host:port"),
        ("http://a:seven", "a broker is host:port"),
        ("http://a:0", "a broker is host:port"),
        ("http://a:99999", "a broker is host:port"),
        ("http://a,https://b", "nothing follows its port"),
        ("http://a/path", "nothing follows its port"),
        (f"http://a?token={SECRET}", "nothing follows its port"),
        (f"http://me:{SECRET}@a", "set HOLDFAST_TOKEN in the environment"),
        (f"http://{SECRET}@a,b", "set HOLDFAST_TOKEN in the environment"),
    ],
)
def test_a_wrong_url_is_refused_with_the_remedy_and_without_its_secret(text: str, problem: str) -> None:
    (found,) = problems_of_broker_url(text)
    assert problem in found
    assert SECRET not in found
    if text.startswith("http"):
        with pytest.raises(ConfigurationError) as error:
            App(text)
        assert found in error.value.problems
        assert SECRET not in str(error.value)


def test_a_broker_has_no_pooler() -> None:
    with pytest.raises(ConfigurationError, match="pooler="):
        App("http://broker", pooler="transaction")
