"""The server of a supervisor answers GET /metrics, and only requests that may read it."""

import asyncio
from pathlib import Path

import pytest

from holdfast.errors import ConfigurationError
from holdfast.metrics.server import MetricsAddress, MetricsServer

TOKEN = "0123456789abcdef"


async def asked(address: MetricsAddress, request: str) -> tuple[int, str]:
    async def render(accept: str) -> tuple[str, bytes]:
        return "text/plain", b"holdfast_jobs 1\n"

    server = MetricsServer(address, render)
    await server.open()
    reader, writer = await asyncio.open_connection(address.host, server.port)
    writer.write(request.replace("\n", "\r\n").encode() + b"\r\n\r\n")
    answer = (await reader.read()).decode()
    writer.close()
    await server.close()
    return int(answer.split()[1]), answer.rpartition("\r\n\r\n")[2]


def with_token(folder: Path, token: str = TOKEN) -> str:
    file = folder / "token"
    file.write_text(f"{token}\n")
    return str(file)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ("GET /metrics HTTP/1.1\nHost: localhost:9464", 200),
        ("GET /metrics?x=1 HTTP/1.1\nHost: 127.0.0.1:9464", 200),
        ("GET /metrics HTTP/1.1\nHost: rebound.example:9464", 403),
        ("GET /metrics HTTP/1.1\nHost: localhost:9464\nOrigin: https://page.example", 403),
        ("GET /metrics HTTP/1.1", 403),
        ("GET /jobs HTTP/1.1\nHost: localhost", 404),
        ("POST /metrics HTTP/1.1\nHost: localhost", 405),
    ],
)
async def test_an_open_address_answers_programs_of_this_machine_only(request_: str, status: int) -> None:
    found, body = await asked(MetricsAddress.of("127.0.0.1:0", None), request_)
    assert found == status
    assert ("holdfast_jobs" in body) == (status == 200)


@pytest.mark.parametrize(
    ("authorization", "status"), [(f"Bearer {TOKEN}", 200), ("Bearer wrong", 401), (f"Basic {TOKEN}", 401), ("", 401)]
)
async def test_an_address_with_a_token_answers_only_requests_that_carry_it(
    authorization: str, status: int, tmp_path: Path
) -> None:
    address = MetricsAddress.of("127.0.0.1:0", with_token(tmp_path))
    found, _ = await asked(address, f"GET /metrics HTTP/1.1\nHost: web-1\nAuthorization: {authorization}")
    assert found == status


@pytest.mark.parametrize("address", ["0.0.0.0:9464", "[::]:9464", "web-1:9464", "127.0.0.1", "127.0.0.1:x"])
def test_an_address_that_others_reach_or_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ConfigurationError, match="--metrics"):
        MetricsAddress.of(address, None)


def test_beyond_this_machine_a_token_of_some_length_is_needed(tmp_path: Path) -> None:
    assert MetricsAddress.of("0.0.0.0:9464", with_token(tmp_path)).port == 9464
    with pytest.raises(ConfigurationError, match="shorter than 16"):
        MetricsAddress.of("0.0.0.0:9464", with_token(tmp_path, "short"))


async def test_a_request_that_is_too_long_is_closed_without_an_answer() -> None:
    with pytest.raises((IndexError, ConnectionResetError)):
        await asked(MetricsAddress.of("127.0.0.1:0", None), "GET /metrics HTTP/1.1\n" + "X: " + "y" * 40_000)
