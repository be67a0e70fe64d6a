"""``perfmodel serve``: an answer, or one JSON error, whatever a client sends."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import perfmodel as pm
from perfmodel.adapters import http as endpoint
from perfmodel.errors import InputError

GOOD = {"new_tokens": [1, 1, 2000], "past_tokens": [4000, 900, 0], "gamma": 3}


@pytest.fixture(scope="module")
def predictor():
    return pm.predictor("qwen3-8b", "h100", draft="eagle3", alpha=0.7, gamma=2)


@contextmanager
def serving(predictor, **limits: float) -> Iterator[int]:
    """The port of a server that runs while the block does."""
    server = endpoint.server(predictor, "127.0.0.1", 0, **limits)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def port(predictor):
    with serving(predictor) as free_port:
        yield free_port


def ask(port: int, body: object, method: str = "POST", path: str = "/forward", **headers: str):
    """Status and content of an answer. body: bytes, or what becomes JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request(method, path, text, {"Content-Length": str(len(text))} | headers)
    answer = connection.getresponse()
    content = json.loads(answer.read())
    connection.close()
    return answer.status, content


def test_a_batch_has_the_predictors_time(port, predictor) -> None:
    seconds = predictor.forward_s(GOOD["new_tokens"], GOOD["past_tokens"], 3)
    expected = {"seconds": seconds, "tokens_per_iteration": predictor.tokens_per_iteration(3)}
    assert ask(port, GOOD) == (200, expected)
    status, content = ask(port, {"new_tokens": [1], "past_tokens": [10]})
    assert status == 200
    assert content["tokens_per_iteration"] == predictor.tokens_per_iteration(2)
    status, content = ask(port, b"", "GET", "/")
    assert status == 200
    assert content["kv_tokens"] == predictor.kv_tokens
    assert content["question"]["model"] == "qwen3-8b"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "body"),
        (b"{", "truncated"),
        (b"\xff\xfe\x00", "body"),
        (b"[" * 100_000, "body"),
        (b'{"new_tokens": [NaN], "past_tokens": [1]}', "body"),
        (b'{"new_tokens": [1e999], "past_tokens": [1]}', ""),
        (b'{"new_tokens": [1' + b"0" * 5000 + b'], "past_tokens": [1]}', ""),
        ([1, 2], "object"),
        ({"new_tokens": [1]}, "past_tokens"),
        (GOOD | {"model": "/etc/passwd"}, "unknown field"),
        (GOOD | {"gamma": 2.5}, "int"),
        (GOOD | {"gamma": -1}, "gamma"),
        (GOOD | {"gamma": 10**9}, "gamma"),
        (GOOD | {"new_tokens": ["1", 1, 1]}, "str"),
        (GOOD | {"new_tokens": [True, 1, 1]}, "bool"),
        (GOOD | {"new_tokens": [[1], [1], [1]]}, "array"),
        (GOOD | {"new_tokens": [1, 1]}, "one entry per request"),
        (GOOD | {"new_tokens": [-1, 1, 1]}, "new tokens from 1"),
        ({"new_tokens": [], "past_tokens": []}, "at least one"),
    ],
)
def test_a_hostile_body_gets_one_json_error(port, body, words: str) -> None:
    status, content = ask(port, body)
    assert 400 <= status < 500
    assert list(content) == ["error"]
    assert words in content["error"]
    assert "\n" not in content["error"]
    assert len(content["error"]) < 600
    assert ask(port, GOOD)[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("POST", "/", 404), ("GET", "/forward", 404), ("PUT", "/forward", 501), ("POST", "/../../etc", 404)],
)
def test_other_paths_and_methods_are_refused(port, method: str, path: str, status: int) -> None:
    answered_status, content = ask(port, b"{}", method, path)
    assert answered_status == status
    assert list(content) == ["error"]


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"POST /forward HTTP/1.1\r\n\r\n", "Content-Length"),
        (b"POST /forward HTTP/1.1\r\nContent-Length: -5\r\n\r\n", "Content-Length"),
        (b"POST /forward HTTP/1.1\r\nContent-Length: 99999999999999\r\n\r\n", "at most"),
        (b"POST /forward HTTP/1.1\r\nContent-Length: 50\r\n\r\n{}", "ended early"),
        (
            b"POST /forward HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
            "Transfer-Encoding",
        ),
        (b"POST /forward HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 4\r\n\r\n{}{}", "once"),
        (b"POST /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", "error"),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 500 + b"\r\n", "error"),
        (b"\x16\x03\x01 no http at all\r\n\r\n", "error"),
    ],
)
def test_a_broken_request_gets_one_json_error(port, sent: bytes, words: str) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    head, _, content = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 4")
    assert words.encode() in answer
    assert content.startswith(b'{"error":')
    assert len(content) < 600


def test_a_silent_client_is_disconnected_and_holds_up_nobody(predictor) -> None:
    with (
        serving(predictor, timeout_s=0.2) as port,
        socket.create_connection(("127.0.0.1", port), timeout=20) as silent,
    ):
        silent.sendall(b"POST /forward HTTP/1.1\r\nContent-Length: 50\r\n\r\n{")
        assert ask(port, GOOD)[0] == 200
        assert silent.recv(4096) == b""


def test_a_client_that_sends_a_byte_now_and_then_is_disconnected(predictor) -> None:
    with serving(predictor, timeout_s=0.3) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as slow:
            slow.sendall(b"POST /forward HTTP/1.1\r\nContent-Length: 5000\r\n\r\n")
            with pytest.raises(OSError, match=r"reset|pipe|aborted"):  # noqa: PT012  until the server closes it
                for _ in range(200):
                    slow.sendall(b" ")
                    time.sleep(0.05)
        assert ask(port, GOOD)[0] == 200


def test_many_clients_are_answered_and_those_beyond_the_limit_refused(predictor) -> None:
    with serving(predictor) as port:
        clients = [_keeps_alive(port) for _ in range(128)]
        with pytest.raises(AssertionError, match="503"):
            _keeps_alive(port)
        for client in clients:
            client.request("POST", "/forward", json.dumps(GOOD))
            assert client.getresponse().read().startswith(b'{"seconds"')
            client.close()
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:  # the places are free again
            with suppress(AssertionError):
                _keeps_alive(port).close()
                break
        else:
            pytest.fail("no place became free")


def _keeps_alive(port: int) -> http.client.HTTPConnection:
    """A connection on which one request was answered."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    client.request("GET", "/")
    answer = client.getresponse()
    answer.read()
    assert answer.status == 200, answer.status
    return client


@pytest.mark.parametrize("size", [2**20 + 1, 2**22])
def test_a_body_of_more_than_a_mebibyte_gets_its_error(port, size: int) -> None:
    status, content = ask(port, b" " * size)
    assert status == 413
    assert content["error"] == "body: must have at most 1048576 bytes"


def test_requests_of_one_connection_are_answered_in_order(port, predictor) -> None:
    bodies = [json.dumps(GOOD | {"gamma": gamma}).encode() for gamma in (0, 1, 2, 3)]
    head = b"POST /forward HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(b"".join(head % len(body) + body for body in bodies))
        connection.shutdown(socket.SHUT_WR)
        answers = b"".join(iter(lambda: connection.recv(65536), b"")).split(b"HTTP/1.1 200 OK")[1:]
    seconds = [json.loads(answer.partition(b"\r\n\r\n")[2])["seconds"] for answer in answers]
    batch = (GOOD["new_tokens"], GOOD["past_tokens"])
    assert seconds == [predictor.forward_s(*batch, gamma) for gamma in (0, 1, 2, 3)]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_damaged_request_gets_at_most_one_error(port, data: st.DataObject) -> None:
    """Bytes of a good request are changed, left out and added."""
    body = json.dumps(GOOD).encode()
    request = bytearray(b"POST /forward HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(request) - 1))
        request[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
        if not request:
            return
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    if answer:
        content = json.loads(answer.rpartition(b"\r\n\r\n")[2] or b"{}")
        assert content.keys() <= {
            "error",
            "seconds",
            "tokens_per_iteration",
            "question",
            "kv_tokens",
            "max_gamma",
        }
        assert b"Traceback" not in answer
    assert ask(port, GOOD)[0] == 200


def test_an_address_that_is_not_free_is_refused(port, predictor) -> None:
    with pytest.raises(InputError, match="port"):
        endpoint.server(predictor, "127.0.0.1", port)
    with pytest.raises(InputError, match="host"):
        endpoint.server(predictor, "no.such.host.invalid", 0)
