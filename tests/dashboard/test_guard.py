"""Which requests a page that knows no users answers."""

import pytest

from holdfast.http.guard import foreign, refusal

OWN = (b"host", b"localhost:8400")


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.0.0.9", "::1", "::ffff:127.0.0.1"])
@pytest.mark.parametrize("host", [b"localhost", b"localhost:8400", b"LOCALHOST:8400", b"127.0.0.1:8400", b"[::1]", b"[::1]:8400"])
def test_programs_of_this_machine_are_answered(peer: str, host: bytes) -> None:
    assert refusal(peer, [(b"host", host)]) is None


@pytest.mark.parametrize("peer", ["10.0.0.7", "::ffff:10.0.0.7", "fe80::1", "not an address", "", None])
def test_other_machines_are_refused(peer: str | None) -> None:
    assert "Forward the port" in (refusal(peer, [OWN]) or "")


@pytest.mark.parametrize(
    "header", [b"forwarded", b"x-forwarded-for", b"x-forwarded-proto", b"x-real-ip", b"via", b"cf-connecting-ip"]
)
def test_requests_that_a_proxy_passes_on_are_refused(header: bytes) -> None:
    assert header.decode() in (refusal("127.0.0.1", [OWN, (header, b"10.0.0.7")]) or "")


@pytest.mark.parametrize(
    "hosts", [[b"evil.example"], [b"localhost.evil.example:8400"], [b"localhost", b"evil.example"], [b""], []]
)
def test_another_name_for_this_machine_is_refused(hosts: list[bytes]) -> None:
    assert "Use localhost" in (refusal("127.0.0.1", [(b"host", host) for host in hosts]) or "")


@pytest.mark.parametrize(("site", "mode", "is_refused"), [(b"cross-site", b"no-cors", True), (b"cross-site", b"navigate", False)])
def test_a_page_of_another_site_may_lead_here_but_not_load_from_here(site: bytes, mode: bytes, is_refused: bool) -> None:
    headers = [OWN, (b"sec-fetch-site", site), (b"sec-fetch-mode", mode)]
    assert (refusal("127.0.0.1", headers) is not None) == is_refused


@pytest.mark.parametrize("origin", ["null", "", "http://[", "https://localhost:8400@evil.example", "http://localhost:8401"])
def test_a_change_from_an_origin_that_is_not_this_address_is_refused(origin: str) -> None:
    assert "It comes from" in (foreign({"host": "localhost:8400", "origin": origin}) or "")
