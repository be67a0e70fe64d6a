"""A text that another program keeps in its own format is read like the text itself."""

import json

import pytest

from perfmodel.validate.engine.acceptance import draft_length, import_text
from perfmodel.validate.engine.formats import read_pasted
from perfmodel.validate.engine.text import plain
from perfmodel.validate.engine.timing import GivenFacts
from perfmodel.validate.engine.unwrapped import unwrapped
from tests.validate.engine.figures import page, subject
from tests.validate.engine.pasting import sample


@pytest.mark.parametrize(
    "record",
    [
        {"timestamp": "2026-11-02T10:00:01Z", "level": "INFO", "message": "{}"},
        {"msg": "{}", "ts": 1762077600.1},
        {"log": "{}\n", "stream": "stderr", "time": "2026-11-02T10:00:01Z"},
        {"log": "{}\n"},
    ],
)
def test_the_records_of_a_log_are_its_lines(record: dict[str, object]) -> None:
    lines = sample("llama_server_log").splitlines()
    key = next(key for key, value in record.items() if "{}" in str(value))
    records = [json.dumps(record | {key: str(record[key]).format(line)}) for line in lines]
    assert plain("\n".join(records)) == plain("\n".join(lines))


@pytest.mark.parametrize(
    "text",
    [
        '{"message": "an answer", "timings": {}}',
        '{"message": {"content": "x"}, "time": 1}',
        '{"level": "INFO", "message": "a"}\n{"level": "INFO"}',
        '{"data": {"result": []}}',
        '{"data": {"result": [{"metric": {}, "value": [1, "2"]}, {"metric": 3}, 4]}}',
        '"timings": {"predicted_n": 1',
        "<b>bold</b>",
    ],
)
def test_other_objects_are_left_as_they_are(text: str) -> None:
    assert unwrapped(text) == text


def test_an_answer_of_prometheus_is_a_page_of_metrics() -> None:
    whole = page(100, 300, [70, 40, 20])
    for kind in ("value", "values"):
        results = []
        for line in whole.splitlines():
            metric, _, count = line.rpartition(" ")
            name, _, labels = metric.partition("{")
            found = {"__name__": name} | ({"position": labels.split('"')[1]} if labels else {})
            now = [1762077600.1, count]
            results.append({"metric": found, kind: now if kind == "value" else [[1, "1"], now]})
        answer = json.dumps({"status": "success", "data": {"resultType": "vector", "result": results}})
        (row,) = import_text("x", plain(answer), None, subject(3)).rows
        assert row.histogram == (30, 30, 20, 20)


def test_a_part_of_an_answer_of_llama_cpp_is_read() -> None:
    timings = {"prompt_n": 412, "prompt_ms": 312.5, "predicted_n": 286, "predicted_ms": 4821.1}
    timings |= {"draft_n": 306, "draft_n_accepted": 183}
    part = f'  "timings": {json.dumps(timings)},\n'
    (timing,) = read_pasted("-", plain(part), GivenFacts())
    assert (timing.gamma, timing.tokens_per_iteration) == (3, pytest.approx(285 / 102))


def test_a_table_in_html_is_a_table() -> None:
    html = (
        '<table>\n<tr><th>Config</th><th align="right">tok/s</th></tr>\n'
        "<tr><td>no draft</td><td>38.2</td></tr><tr>\n<td><code>MTP n=2</code> (81% accepted)</td>\n"
        "<td><b>57.1</b></td></tr></table>"
    )
    baseline, drafting = read_pasted("-", plain(html), GivenFacts(input=500))
    assert (baseline.gamma, baseline.seconds) == (0, pytest.approx(1 / 38.2))
    assert (drafting.gamma, drafting.tokens_per_iteration) == (2, pytest.approx(2.62))
    assert drafting.seconds == pytest.approx(2.62 / 57.1)


def test_the_draft_length_of_an_unwrapped_page() -> None:
    assert draft_length(plain('{"data": {"result": 3}}')) is None
