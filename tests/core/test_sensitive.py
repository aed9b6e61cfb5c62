"""A value under a sensitive name is masked in every form in which a message repeats it; other text stays."""

import time

import pytest

from holdfast._core.sensitive import Mask, is_sensitive, sensitive_values


def mask(payload: bytes, text: str, *names: str) -> str:
    return Mask([payload], frozenset(names))(text)


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "Password",
        "db_password",
        "token",
        "accessToken",
        "API_KEY",
        "apikey",
        "card",
        "card_number",
        "iban",
        "SSN",
        "cookies",
    ],
)
def test_names_of_secrets_are_sensitive(name: str) -> None:
    assert is_sensitive(name)


@pytest.mark.parametrize("name", ["order", "monkey", "discard", "keyboard", "user", "email", "path"])
def test_other_names_are_not_sensitive(name: str) -> None:
    assert not is_sensitive(name)


def test_a_task_declares_more_names() -> None:
    assert is_sensitive("birthday", frozenset({"birthday"}))
    assert mask(b'{"birthday":"1815-12-10"}', "born 1815-12-10", "birthday") == "born hidden"


def test_everything_below_a_sensitive_name_is_a_value() -> None:
    document = {"a": [{"secret": {"x": ["one-1", {"y": 22222}], "z": True}}], "card": None, "plain": "text"}
    assert list(sensitive_values(document)) == ["one-1", "22222"]


@pytest.mark.parametrize(
    ("payload", "text", "masked"),
    [
        (b'{"password":"hunter2"}', "login with hunter2 failed: hunter2", "login with hidden failed: hidden"),
        (b'{"password":"it\'s\\n\\"q\\""}', "bad value 'it\\'s\\n\"q\"'", "bad value 'hidden'"),
        (b'{"password":"a\\"b\\\\c"}', r'{"p":"a\"b\\c"}', '{"p":"hidden"}'),
        ('{"secret":"pässwörd"}'.encode(), r"bad 'p\xe4ssw\xf6rd'", "bad 'hidden'"),
        (b'{"token":"a/b c"}', "GET /x?t=a%2Fb%20c", "GET /x?t=hidden"),
        (b'{"card":4111111111111111}', "card 4111111111111111 declined", "card hidden declined"),
        (b'{"key":"abc"}', "abc, abcdef and (abc)", "hidden, abcdef and (hidden)"),
        (b'{"key":"a"}', "a b", "a b"),
        (b'{"user":"ada"}', "no ada", "no ada"),
        (b"no json", "no json", "no json"),
    ],
)
def test_a_value_is_masked_in_each_form(payload: bytes, text: str, masked: str) -> None:
    assert mask(payload, text) == masked


def test_each_line_of_a_private_key_is_masked_where_it_is_indented() -> None:
    text = mask(
        b'{"key":"-----BEGIN-----\\nMIIEvQIBADAN\\nBgkqhkiG9w0B"}', "  | -----BEGIN-----\n  | MIIEvQIBADAN\n  | BgkqhkiG9w0B"
    )
    assert text == "  | hidden\n  | hidden\n  | hidden"


def test_the_first_half_of_a_value_at_the_end_of_a_cut_text_is_masked() -> None:
    assert mask(b'{"password":"correct-horse"}', "bad password correct-ho…") == "bad password hidden…"


def test_the_longer_of_two_values_is_masked_first() -> None:
    assert mask(b'{"password":"secret","token":"secret-and-more"}', "it was secret-and-more") == "it was hidden"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("connect password=hunter2 host=db", "connect password=hidden host=db"),
        ("postgresql://shop:hunter2@db/shop", "postgresql://shop:hidden@db/shop"),
        ("{'access_token': 'abc.def', 'user': 'ada'}", "{'access_token': 'hidden', 'user': 'ada'}"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer hidden"),
        ("Unexpected token: }", "Unexpected token: }"),
        ("KeyError: 'sku'", "KeyError: 'sku'"),
    ],
)
def test_secrets_that_no_payload_holds_are_masked_where_their_name_stands_before_them(text: str, masked: str) -> None:
    assert mask(b"{}", text) == masked


@pytest.mark.parametrize(
    ("payload", "text"),
    [(b"{}", "a-" * 8_000), (b'{"token":"' + b"x" * 200_000 + b'"}', "it failed with yyy…")],
    ids=["many hyphens", "a long value"],
)
def test_masking_takes_no_longer_than_a_person_notices(payload: bytes, text: str) -> None:
    began = time.thread_time()  # other tests use the processor, too
    assert mask(payload, text) == text
    assert time.thread_time() - began < 3.0
