"""The driver against stand-in servers: chunks, counters, faults, interruptions. No measured time is
judged.
"""

import random
import re
from collections.abc import Iterator
from functools import partial

import pytest

from perfmodel.cli import run
from perfmodel.validate.engine import api_key, client
from perfmodel.validate.engine.driver import ServerLoad, check, measure, served_gamma
from perfmodel.validate.engine.formats import read
from perfmodel.validate.engine.record import read_engine_record
from perfmodel.validate.engine.timing import GivenFacts
from tests.refusals import refused
from tests.validate.engine.hostile_server import FAULTS, KEY_FORMS, NOT_WHOLE, broken, repeating
from tests.validate.engine.server import HEAD, NOT_FOUND, Engine, OutOfBlocks, serving

LOAD = ServerLoad(batch=2, prompt=8, tokens=24)
ASK = [
    "--model",
    "llama-68m",
    "--hardware",
    "h100",
    "--draft",
    "ngram",
    "--batches",
    "1,2",
    "--prompts",
    "8,16",
]
ASK += ["--new-tokens", "24", "--machine", "here-1", "--calibration", "ideal"]
ONE_EACH = ("median time between chunks", "stretch over its chunks")
"""How a step was made where every chunk is one: by the median, or on a busy machine, which reads late, by the
mean.
"""


def test_plain_decoding_has_one_token_a_chunk_and_no_counters() -> None:
    engine = Engine()
    with serving(engine) as url:
        server = client.LiveServer.at(url + "/v1/")
        assert server.model() == "tiny"
        assert server.engine() == ("vllm", "9.9")
        assert served_gamma(server) is None
        timing = measure(server, "tiny", 320, LOAD, 0, seed=1, rounds=2)
    assert timing.batch == 2
    assert timing.gamma == 0
    assert timing.tokens_per_iteration == 1.0
    assert timing.how.startswith(ONE_EACH)
    assert timing.seconds > 0.5 * engine.step_s
    assert 8 < timing.context < 8 + 24
    prompts = [tuple(request["prompt"]) for request in engine.requests]
    assert len(set(prompts)) == len(prompts) == 2 * 3, "one round warms up, and no prompt comes twice"
    assert all(20 <= token < 300 and len(p) == 8 for p in prompts for token in p)
    assert {r["max_tokens"] for r in engine.requests[2:]} == {24}


@pytest.mark.parametrize(
    ("engine", "how"),
    [
        (Engine(gamma=3, alpha=0.6), ONE_EACH),
        (Engine(gamma=3, alpha=0.6, counts=False), ONE_EACH),
        (Engine(gamma=3, alpha=0.6, merge=3), "Omega of the counters x time of a token"),
    ],
)
def test_chunks_of_several_tokens_are_iterations_where_the_counters_agree(engine, how) -> None:
    with serving(engine) as url:
        server = client.LiveServer.at(url)
        assert served_gamma(server) == 3
        timing = measure(server, "tiny", 320, ServerLoad(2, 8, 120), 3, seed=1, rounds=2)
    assert timing.how.startswith(how)
    assert 1.3 < timing.tokens_per_iteration < 3.7


def test_a_run_is_a_record_that_another_run_is_added_to(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (1e3, 0.0, 0.0))
    monkeypatch.setenv(api_key.KEY, "secret-key-1")
    engine = Engine()
    with serving(engine) as url:
        assert run(["validate", "engine", "--url", url, *ASK, "--results", str(tmp_path)]) == 0
    assert set(engine.keys) == {"Bearer secret-key-1"}
    assert not any("secret" in p.read_text() or "127.0.0.1" in p.read_text() for p in tmp_path.rglob("*.*"))
    printed = capsys.readouterr()
    assert "must hold two draft lengths or more" in printed.out
    assert "WARNING: load 1000.0 on" in printed.err
    assert "WARNING: no counters of drafts and no --gamma: recorded as K = 0" in printed.err
    (plain,) = (tmp_path / "here-1").glob("engine-*-K0.json")
    record = read_engine_record(plain)
    assert record.subject.engine == "vllm"
    assert record.subject.engine_version == "9.9"
    assert [p.batch for p in record.points] == [1, 2, 1, 2]
    assert all(p.status == "ok" and p.samples for p in record.points)
    assert [t.gamma for t in read(plain, GivenFacts())] == [0] * 4
    with serving(Engine(gamma=2)) as url:
        ask = ["validate", "engine", "--url", url, *ASK, "--results", str(tmp_path)]
        assert run([*ask, "--gamma", "4"]) == 2
        assert "--gamma: must be 2" in capsys.readouterr().err
        assert run([*ask, "--from", str(plain)]) == 0
    assert "held-out error" in capsys.readouterr().out
    assert (tmp_path / "here-1" / "h100-sxm-80gb.vllm-9.9.yaml").is_file()


def test_a_point_that_fails_is_a_row_and_of_nothing_but_faults_nothing_is_kept(tmp_path, capsys) -> None:
    engine = OutOfBlocks({8, 16})
    ask = ["validate", "engine", *ASK, "--results", str(tmp_path), "--url"]
    fault = "--url: /v1/completions: HTTP 500: out of blocks"
    with serving(engine) as url:
        assert run([*ask, url]) == 2
        assert fault in capsys.readouterr().err
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]
        engine.lengths = {16}
        assert run([*ask, url]) == 1
        printed = capsys.readouterr()
        assert f"2 of 4 points failed: {fault}; --resume" in printed.err
        (path,) = tmp_path.rglob("*.json")
        assert printed.out == f"record (partial): {path}\n"
        record = read_engine_record(path)
        assert record.partial
        engine.lengths = set()
        assert run([*ask, url, "--resume"]) == 0
        again = read_engine_record(path)
    assert again.partial is False
    assert [p.status for p in again.points] == ["ok"] * 4
    assert not list(tmp_path.rglob("*.journal"))
    failed = [point for point in record.points if point.status == "failed"]
    assert [point.key for point in failed] == ["B1-P16-N24-K0", "B2-P16-N24-K0"]
    assert {point.error for point in failed} == {fault}


class Flaky(Engine):
    """Has counters for a while, or another version after a while, and refuses some requests once."""

    def answer(self, path: str, head: bytes, body: bytes) -> Iterator[bytes]:
        if self.gamma == 2 and self.drafts > 150 and path == "/metrics":
            return iter([NOT_FOUND])
        if self.gamma == 1 and len(self.requests) > 8 and path == "/version":
            return iter([HEAD + b'{"version": "10.0"}'])
        if not self.gamma and len(self.requests) == 5 and path == "/v1/completions":
            self.requests.append({})
            return iter([b"HTTP/1.1 429 Too Many Requests\r\nConnection: close\r\n\r\n"])
        return super().answer(path, head, body)


@pytest.mark.parametrize(
    ("gamma", "says"),
    [
        (0, "1 of 4 points failed: .*HTTP 429;"),
        (1, "of 4 points failed.*must stay vllm 9.9 while it is timed, given vllm 10.0;"),
        (2, r"of 4 points failed.*must keep the counters"),
    ],
)
def test_a_server_that_fails_on_the_way_makes_a_partial_record_that_is_resumed(
    gamma, says, tmp_path, capsys
) -> None:
    ask = ["validate", "engine", *ASK, "--results", str(tmp_path), "--url"]
    with serving(Flaky(gamma=gamma)) as url:
        assert run([*ask, url]) == 1
        assert re.search(says, " ".join(capsys.readouterr().err.split()))
    (path,) = tmp_path.rglob("engine-*.json")
    kept = {p.key: p for p in read_engine_record(path).points if p.status == "ok"}
    assert read_engine_record(path).partial
    with serving(Engine(gamma=gamma)) as url:
        assert run([*ask, url, "--resume"]) == 0
    whole = read_engine_record(path)
    assert not whole.partial
    assert kept.items() <= {p.key: p for p in whole.points}.items()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("ftp://127.0.0.1:1", "--url: must be http"),
        ("9" * 400, "--url: must be http"),
        ("http://a..b:1", "--url: must be http"),
        ("http://user:word@127.0.0.1:1", "a key goes into"),
        ("http://127.0.0.1:99999", "--url: must be http"),
        ("http://127.0.0.1:9", "cannot be reached"),
        ("", "--url: must be http"),
        ("http://[::1", "--url: must be http"),
    ],
)
def test_urls_that_lead_nowhere(url, says, capsys, tmp_path) -> None:
    assert run(["validate", "engine", "--url", url, *ASK, "--results", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert says in " ".join(err.split())
    assert "word" not in err
    assert not list(tmp_path.iterdir())


SLOW = [name for name, fault in FAULTS.items() if fault.says == NOT_WHOLE]
SHORTEST = ["--model", "llama-68m", "--hardware", "h100", "--draft", "ngram", "--calibration", "ideal"]
SHORTEST += ["--batches", "1", "--prompts", "8", "--new-tokens", "12"]


@pytest.mark.parametrize("name", SLOW)
def test_a_server_that_does_not_end_is_refused_in_time(name) -> None:
    """Whether it is silent or sends a little again and again."""
    with broken(FAULTS[name], random.Random(name)) as url:
        server = client.LiveServer(url, page_s=0.2, answer_s=0.2)
        asked = server.model if FAULTS[name].path == "/v1/models" else partial(check, server, "tiny", 320)
        refused(f"^--url: {FAULTS[name].path}: is not whole after 0.2 s$", asked)


@pytest.mark.parametrize("name", [name for name in FAULTS if name not in SLOW])
def test_a_fault_of_the_server_is_one_line_and_leaves_nothing(name, tmp_path, capsys) -> None:
    """Also where its bytes arrive torn."""
    with broken(FAULTS[name], random.Random(name)) as url:
        assert run(["validate", "engine", *SHORTEST, "--url", url, "--results", str(tmp_path)]) == 2
    line = capsys.readouterr().err.rstrip("\n")
    assert line.startswith("error: --url: ")
    assert line.isprintable()
    assert FAULTS[name].says in line
    assert not list(tmp_path.iterdir())


KEYED = "sk-very-secret-key1"


@pytest.mark.parametrize("form", KEY_FORMS)
@pytest.mark.parametrize("place", ["status", "event", "version", "model", "header", "metrics"])
def test_a_key_that_a_server_repeats_is_neither_printed_nor_kept(
    place, form, tmp_path, monkeypatch, capsys
) -> None:
    monkeypatch.setenv(api_key.KEY, KEYED)
    repeated = KEY_FORMS[form](KEYED)
    with broken(repeating(place, repeated)) as url:
        run(["validate", "engine", *SHORTEST, "--url", url, "--results", str(tmp_path)])
    printed = capsys.readouterr()
    kept = "".join(path.read_text() for path in tmp_path.rglob("*.*") if path.is_file())
    assert repeated not in printed.out + printed.err + kept


@pytest.mark.parametrize(
    "url",
    [
        "http://h/?api_key=hidden",
        "http://h/%68idden/v1",
        "http://HIDDEN:1",
        "ftp://h/hidden",
        "http://127.0.0.1:9/sk-other",
        "hidden",
    ],
)
@pytest.mark.parametrize("flag", ["--url", "--watch"])
def test_a_key_in_a_url_is_not_printed(url, flag, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv(api_key.KEY, "hidden")
    assert run(["validate", "engine", *SHORTEST, flag, url, "--results", str(tmp_path)]) == 2
    assert not re.search("hidden|other", capsys.readouterr().err.lower())
