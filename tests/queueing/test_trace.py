"""Traces of requests: the forms that are read, and what is refused of them."""

import numpy as np
import pytest

from perfmodel.errors import InputError
from perfmodel.queueing.trace import read_trace


def test_mooncake_lines_are_in_milliseconds(tmp_path):
    where = tmp_path / "trace.jsonl"
    where.write_text(
        '{"timestamp": 3000, "input_length": 20, "output_length": 2, "hash_ids": [1]}\n\n'
        '{"timestamp": 1000, "input_length": 10, "output_length": 1}\n'
    )
    trace = read_trace(where)
    np.testing.assert_allclose(trace.at_s, [0, 2])
    assert trace.input_tokens.tolist() == [10, 20]
    assert trace.output_tokens.tolist() == [1, 2]


def test_a_table_is_in_seconds(tmp_path):
    where = tmp_path / "trace.csv"
    where.write_text("arrival_s,input_tokens,output_tokens\n0.5,100,7\n2,200,8\n")
    trace = read_trace(where)
    np.testing.assert_allclose(trace.at_s, [0, 1.5])
    assert trace.output_tokens.tolist() == [7, 8]


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("t.csv", "arrival_s,input_tokens,output_tokens\n", "one request or more"),
        ("t.csv", "arrival_s,input_tokens\n1,2\n", "output_length or output_tokens"),
        ("t.csv", "arrival_s,input_tokens,output_tokens\n1,two,3\n", "request 1: input_tokens"),
        ("t.csv", "arrival_s,input_tokens,output_tokens\n1,2,3\n-1,2,3\n", "request 2: arrival_s"),
        ("t.csv", "arrival_s,input_tokens,output_tokens\n1,2,3\n1,2,0\n", "request 2: output_tokens"),
        ("t.jsonl", '{"timestamp": 1}\nnonsense\n', "line 2"),
        ("t.jsonl", "[1]\n", "line 1"),
    ],
)
def test_what_is_refused(tmp_path, name, text, told):
    where = tmp_path / name
    where.write_text(text)
    with pytest.raises(InputError, match=told):
        read_trace(where)
