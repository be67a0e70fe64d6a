"""``perfmodel serve``: an answer, or one JSON error, whatever a client sends."""

import http.client
import json
import socket
import threading

import pytest

import perfmodel as pm
from perfmodel.adapters import http as endpoint
from perfmodel.errors import InputError

GOOD = {"new_tokens": [1, 1, 2000], "past_tokens": [4000, 900, 0], "gamma": 3}


@pytest.fixture(scope="module")
def predictor():
    return pm.predictor("qwen3-8b", "h100", draft="eagle3", alpha=0.7, gamma=2)


@pytest.fixture(scope="module")
def port(predictor):
    made = endpoint.server(predictor, "127.0.0.1", 0)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made.server_port
    made.shutdown()
    made.server_close()


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
    found, content = ask(port, b"{}", method, path)
    assert found == status
    assert list(content) == ["error"]


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"POST /forward HTTP/1.1\r\n\r\n", "Content-Length"),
        (b"POST /forward HTTP/1.1\r\nContent-Length: -5\r\n\r\n", "Content-Length"),
        (b"POST /forward HTTP/1.1\r\nContent-Length: 99999999999999\r\n\r\n", "at most"),
        (b"POST /forward HTTP/1.1\r\nContent-Length: 50\r\n\r\n{}", "ended early"),
        (b"\x16\x03\x01 no http at all\r\n\r\n", "error"),
    ],
)
def test_a_broken_request_gets_one_json_error(port, sent: bytes, words: str) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    assert words.encode() in answer
    assert b'{"error":' in answer


def test_a_silent_client_is_disconnected_and_holds_up_nobody(predictor) -> None:
    made = endpoint.server(predictor, "127.0.0.1", 0, timeout_s=0.2)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    with socket.create_connection(("127.0.0.1", made.server_port), timeout=20) as silent:
        silent.sendall(b"POST /forward HTTP/1.1\r\nContent-Length: 50\r\n\r\n{")
        assert ask(made.server_port, GOOD)[0] == 200
        assert silent.recv(4096) == b""
    made.shutdown()
    made.server_close()


def test_an_address_that_is_not_free_is_refused(port, predictor) -> None:
    with pytest.raises(InputError, match="port"):
        endpoint.server(predictor, "127.0.0.1", port)
    with pytest.raises(InputError, match="host"):
        endpoint.server(predictor, "no.such.host.invalid", 0)
