"""The bad network does what its methods promise, and nothing else."""

import gc
import socket
import socketserver
import threading
import warnings
from collections.abc import Iterator

import pytest

from tests.e2e.waiting import STALL, until
from tests.servers.proxy import TcpProxy

SHORT = 0.2


class Echo(socketserver.BaseRequestHandler):
    """Echoes what it receives, and notes that the other side is gone."""

    def handle(self) -> None:
        self.server.received += 1  # type: ignore[attr-defined]
        try:
            while piece := self.request.recv(1000):
                self.server.output.append(piece)  # type: ignore[attr-defined]
                self.request.sendall(piece)
        except ConnectionError:
            pass
        self.server.ended += 1  # type: ignore[attr-defined]


class EchoServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    received = ended = 0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Echo)
        self.output: list[bytes] = []


@pytest.fixture
def echo() -> Iterator[EchoServer]:
    with EchoServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def proxy(echo: EchoServer) -> Iterator[TcpProxy]:
    with TcpProxy(echo.server_address[1]) as between:
        yield between


@pytest.fixture
def client(proxy: TcpProxy) -> Iterator[socket.socket]:
    with called(proxy) as connection:
        yield connection


def called(proxy: TcpProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=STALL)


def asked(client: socket.socket, piece: bytes) -> bytes:
    client.sendall(piece)
    answer = b""
    while len(answer) < len(piece) and (more := client.recv(1000)):
        answer += more
    return answer


def is_silent(client: socket.socket) -> bool:
    """Neither an answer nor an end."""
    client.settimeout(SHORT)
    try:
        client.recv(1)
    except TimeoutError:
        return True
    finally:
        client.settimeout(STALL)
    return False


def is_broken(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def test_everything_passes_and_an_end_is_an_end(echo: EchoServer, proxy: TcpProxy, client: socket.socket) -> None:
    assert asked(client, b"x" * 100_000) == b"x" * 100_000
    assert proxy.connections == 1
    client.close()
    assert until(lambda: echo.ended == 1 and proxy.connections == 0, within=STALL)


def test_requests_that_are_swallowed_never_arrive(echo: EchoServer, proxy: TcpProxy, client: socket.socket) -> None:
    assert asked(client, b"one") == b"one"
    proxy.blackhole("up")
    client.sendall(b"two")
    assert is_silent(client)
    assert echo.output == [b"one"]
    proxy.restore()
    assert is_broken(client)
    with called(proxy) as other:
        assert asked(other, b"three") == b"three"


def test_answers_that_are_swallowed_belong_to_requests_that_arrived(
    echo: EchoServer, proxy: TcpProxy, client: socket.socket
) -> None:
    proxy.blackhole("down")
    client.sendall(b"one")
    assert until(lambda: echo.output == [b"one"], within=STALL)
    assert is_silent(client)
    proxy.restore()
    assert is_broken(client)


def test_a_client_that_lost_nothing_keeps_its_connection(proxy: TcpProxy, client: socket.socket) -> None:
    assert asked(client, b"one") == b"one"
    proxy.blackhole()
    proxy.restore()
    assert asked(client, b"two") == b"two"


def test_a_connection_is_cut_at_a_byte_and_the_next_one_is_not(echo: EchoServer, proxy: TcpProxy) -> None:
    proxy.cut_after(down=4)
    with called(proxy) as client:
        assert asked(client, b"one") == b"one"
        client.sendall(b"two")
        assert client.recv(1000) == b"t"
        assert is_broken(client)
    proxy.cut_after(up=2)
    with called(proxy) as client:
        client.sendall(b"three")
        assert is_broken(client)
    assert until(lambda: b"th" in echo.output, within=STALL)
    with called(proxy) as client:
        assert asked(client, b"four") == b"four"


def test_all_are_reset_and_come_back(proxy: TcpProxy, client: socket.socket) -> None:
    assert asked(client, b"one") == b"one"
    proxy.reset()
    with pytest.raises(ConnectionResetError):
        client.recv(1)
    with called(proxy) as other:
        assert asked(other, b"two") == b"two"


def test_no_connection_is_accepted_while_it_is_cut(proxy: TcpProxy, client: socket.socket) -> None:
    assert asked(client, b"one") == b"one"
    proxy.cut()
    assert is_broken(client)
    with pytest.raises(ConnectionRefusedError):
        called(proxy)
    proxy.restore()
    with called(proxy) as other:
        assert asked(other, b"two") == b"two"


def test_half_open_is_an_end_that_only_the_server_sees(echo: EchoServer, proxy: TcpProxy, client: socket.socket) -> None:
    assert asked(client, b"one") == b"one"
    proxy.half_open()
    assert until(lambda: echo.ended == 1, within=STALL)
    client.sendall(b"two")
    assert is_silent(client)
    assert echo.output == [b"one"]
    with called(proxy) as other:
        assert asked(other, b"three") == b"three"
    proxy.restore()
    assert is_broken(client)


def test_a_slow_network_is_slow_both_ways(proxy: TcpProxy, client: socket.socket) -> None:
    proxy.delay(SHORT)
    client.sendall(b"one")
    client.settimeout(1.5 * SHORT)
    with pytest.raises(TimeoutError):
        client.recv(1000)
    client.settimeout(STALL)
    assert client.recv(1000) == b"one"


def test_a_server_that_is_away_is_an_end(proxy: TcpProxy, echo: EchoServer) -> None:
    echo.shutdown()
    echo.socket.close()
    with pytest.raises(ConnectionResetError), called(proxy) as client:
        client.recv(1)


def test_one_that_ends_while_it_is_called_leaves_nothing_open(echo: EchoServer) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(30):
            with TcpProxy(echo.server_address[1]) as proxy:
                callers = [socket.create_connection(("127.0.0.1", proxy.port)) for _ in range(3)]
            for caller in callers:
                caller.close()
        gc.collect()
    assert [str(warning.message) for warning in seen if warning.category is ResourceWarning] == []
