"""Traces of requests: the forms that are read, and what is refused of them."""

import pytest

from perfmodel.errors import InputError
from perfmodel.queueing import trace

MOONCAKE = """{"timestamp": 3000, "input_length": 20, "output_length": 2, "hash_ids": [1]}

{"timestamp": 1000, "input_length": 10, "output_length": 1}
"""


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("t.jsonl", MOONCAKE, ([0, 2], [10, 20], [1, 2])),  # in milliseconds
        (
            "t.csv",
            "arrival_s,input_tokens,output_tokens\n0.5,100,7\n2,200,8\n",
            ([0, 1.5], [100, 200], [7, 8]),
        ),
        (
            "azure.csv",
            "TIMESTAMP,ContextTokens,GeneratedTokens\n"
            "2023-11-16 18:17:03.5000000,100,7\n2023-11-16 18:17:05.0000000,200,8\n",
            ([0, 1.5], [100, 200], [7, 8]),
        ),
        (
            "t.jsonl",
            '{"arrival": "2023-11-16T18:17:03Z", "prompt_tokens": 5, "completion_tokens": 6}',
            ([0], [5], [6]),
        ),
        (
            "t.csv",
            f"arrival_s,input_tokens,output_tokens\n0,{2**40},1\n1e15,1,{2**40}\n",
            ([0, 1e15], [2**40, 1], [1, 2**40]),
        ),
    ],
)
def test_what_is_read(tmp_path, name, text, expected):
    where = tmp_path / name
    where.write_text(text)
    read = trace.read_trace(where)
    assert [each.tolist() for each in (read.at_s, read.input_tokens, read.output_tokens)] == [*expected]


@pytest.mark.parametrize(
    "header",
    [
        "arrival_s,input_tokens,output_tokens,session_id",
        "arrival,prompt_tokens,completion_tokens,conversation_id",
        "arrival_time,prompt_len,output_len,session",
        "arrival_time,input_len,output_length,session",
        "TIMESTAMP,ContextTokens,GeneratedTokens,session",
        "arrival,input_length,output_len,session",
    ],
)
def test_every_name_of_a_column_is_read(tmp_path, header):
    where = tmp_path / "t.csv"
    where.write_text(f"{header}\n0,5,6,a\n1,70,8,a\n")
    read = trace.read_trace(where)
    assert read.at_s.tolist() == [0, 1]
    assert read.input_tokens.tolist() == [5, 70]
    assert read.output_tokens.tolist() == [6, 8]
    assert read.shared is not None
    assert read.shared.follows == [None, 0]


def test_a_csv_file_as_excel_writes_it_is_read(tmp_path):
    """It begins with a byte order mark and has lines that end in CR LF."""
    where = tmp_path / "t.csv"
    where.write_bytes(b"\xef\xbb\xbfarrival_s,input_tokens,output_tokens\r\n0.5,100,7\r\n2,200,8\r\n")
    assert trace.read_trace(where).at_s.tolist() == [0, 1.5]


@pytest.mark.parametrize(
    ("names", "follows"),
    [
        ("session_id,conversation_id", [None, 0, None]),
        ("conversation_id,session_id", [None, None, 0]),
        ("session,conversation_id", [None, None, 0]),
    ],
)
def test_of_several_columns_of_sessions_one_counts(tmp_path, names, follows):
    """session_id before conversation_id before session, in any order of the columns. Requests 1 and 2 share
    the first column of these, requests 1 and 3 the second.
    """
    where = tmp_path / "t.csv"
    where.write_text(f"arrival_s,input_tokens,output_tokens,{names}\n0,5,6,a,c\n1,70,8,a,d\n2,90,8,b,c\n")
    shared = trace.read_trace(where).shared
    assert shared is not None
    assert shared.follows == follows


HASHED = """{"timestamp": 5, "input_length": 1200, "output_length": 2, "hash_ids": [7, 8, 10]}
{"timestamp": 1, "input_length": 1100, "output_length": 2, "hash_ids": [7, 8, 9]}
{"timestamp": 9, "input_length": 300, "output_length": 2, "hash_ids": null}
"""
CHATS = "arrival_s,input_tokens,output_tokens,session_id\n0,100,20,a\n1,50,5,\n2,150,9,a\n3,60,9,a\n"


@pytest.mark.parametrize(
    ("name", "text", "paths", "keeps", "follows"),
    [
        # three hashes of 1,200 tokens: blocks of 512
        (
            "t.jsonl",
            HASHED,
            [((7, 512), (8, 512), (9, 76)), ((7, 512), (8, 512), (10, 176)), ()],
            [None, None, None],
            (),
        ),
        # a context of 119, then of 158 of which a shorter prompt takes its 60
        ("t.csv", CHATS, [(), (), ((0, 119),), ((0, 60),)], [0, None, 0, 0], [None, None, 0, 2]),
        (
            "t.jsonl",
            MOONCAKE.replace(', "hash_ids": [1]', ', "session_id": 4'),
            [(), ()],
            [None, 0],
            [None, None],
        ),
        ("t.jsonl", MOONCAKE.replace("[1]", '[ ], "session_id": 0'), [(), ()], [None, 0], [None, None]),
    ],
)
def test_what_prompts_have_in_common(tmp_path, name, text, paths, keeps, follows):
    where = tmp_path / name
    where.write_text(text)
    shared = trace.read_trace(where).shared
    assert shared is not None
    assert shared.paths == paths
    assert shared.keeps == keeps
    assert shared.follows == follows


def test_empty_hashes_are_no_session(tmp_path):
    where = tmp_path / "t.jsonl"
    where.write_text(MOONCAKE.replace('"hash_ids": [1]', '"hash_ids": []'))
    assert trace.read_trace(where).shared is None


LATER_CHATS = "".join(f"{second},7,7,b\n" for second in range(4, 50_006))
"""So many lines that the last ones are read in another block."""
LATER_HASHED = "".join(
    f'{{"timestamp": {second}, "input_length": 7, "output_length": 2, "hash_ids": [5]{" " * 10**6}}}\n'
    for second in range(10, 15)
)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.jsonl", HASHED + LATER_HASHED),
        ("t.jsonl", LATER_HASHED + HASHED),
        ("t.csv", CHATS.replace("\n", "\n" + LATER_CHATS, 1)),
    ],
    ids=["hashes", "hashes, first requests last", "sessions, first requests last"],
)
def test_of_a_long_trace_the_first_requests_keep_what_they_share(tmp_path, name, text):
    where = tmp_path / name
    where.write_text(text.replace("\n", "\n\n"))
    whole = trace.read_trace(where)
    beginning = trace.read_trace(where, longest=2)
    assert beginning.at_s.tolist() == whole.at_s.tolist()
    assert beginning.shared is not None
    assert beginning.shared == whole.first(2).shared


@pytest.mark.parametrize(
    ("name", "text", "predicted"),
    [
        ("t.csv", "arrival_s,input_tokens,output_tokens\n", "one request or more"),
        ("t.csv", "arrival_s,input_tokens\n1,2\n", "output_length or output_tokens"),
        ("t.csv", "arrival_s,input_tokens,output_tokens\n1,two,3\n", "request 1: input_tokens"),
        ("t.csv", "arrival_s,input_tokens,output_tokens\n1,2,3\n-1,2,3\n", "request 2: arrival_s"),
        ("t.csv", "arrival_s,input_tokens,output_tokens\n1,2,3\n1,2,0\n", "request 2: output_tokens"),
        ("t.jsonl", '{"timestamp": 1}\nnonsense\n', "input_length or"),
        ("t.jsonl", "[1]\n", "request 1"),
        ("t.jsonl", MOONCAKE + "nonsense", "request 3: must be a JSON object"),
        ("t.jsonl", MOONCAKE + "[" * 100_000, "request 3: must have"),
        ("t.jsonl", MOONCAKE + '{"timestamp": "x"' + " " * 2**21 + "}", "request 3: must be at most"),
        ("t.jsonl", MOONCAKE.replace("20", '"many"'), "request 1: .*input_length"),
        ("t.jsonl", MOONCAKE.replace("3000", "9" * 400), "request 1"),
        ("t.jsonl", MOONCAKE.replace("[1]", "[-1]"), "request 1: .*hash_ids"),
        ("t.jsonl", MOONCAKE.replace("[1]", "[1e999]"), "request 1: "),
        (
            "t.jsonl",
            HASHED.replace("[7, 8, 9]", "[7]"),
            "hash_ids of request 1 by arrival: must be one for each",
        ),
        ("t.csv", "arrival_s,input_tokens,output_tokens\n1,2,3\n1,2\n", "line 3: must have a cell"),
        (
            "t.csv",
            "arrival_s,input_tokens,output_tokens,session\n1,2,3,a\n1,2,3\n",
            "line 3: must have a cell",
        ),
        ("t.csv", "arrival_s,input_tokens,output_tokens\n1,2," + "3" * 200_000, "field larger than"),
        ("t.csv", "arrival_s,input_tokens,output_tokens\n1,2," + " " * 2**20, "at most 1048576 characters"),
        ("t.csv", "arrival_s,input_tokens,output_tokens\n" + "9" * 400 + ",2,3", "request 1: arrival_s"),
        ("t.csv", "arrival_s,input_tokens,output_tokens\n1e16,2,3", "arrival_s: must be a number from 0 to"),
        (
            "t.csv",
            "arrival_s,input_tokens,output_tokens\n2023-01-01 00:00:00,2,3\n7,2,3",
            "request 2: arrival_s",
        ),
    ],
)
def test_what_is_refused(tmp_path, name, text, predicted):
    where = tmp_path / name
    where.write_text(text)
    with pytest.raises(InputError, match=predicted):
        trace.read_trace(where)


def test_more_than_five_million_hashes_are_refused(tmp_path):
    hashes = ",".join("1" * 500_000)
    line = f'{{"timestamp": 1, "input_length": 7, "output_length": 2, "hash_ids": [{hashes}]}}\n'
    (tmp_path / "t.jsonl").write_text(line * 10 + HASHED)
    with pytest.raises(InputError, match="hash_ids: must be at most 5000000 in 200000 requests"):
        trace.read_trace(tmp_path / "t.jsonl")


def test_no_more_requests_are_read_than_the_limit(tmp_path, monkeypatch):
    """The limit is made small, because a file with ten million requests takes long to write."""
    monkeypatch.setattr(trace, "MAX_REQUESTS", 3)
    where = tmp_path / "t.csv"
    where.write_text("arrival_s,input_tokens,output_tokens\n" + "1,20,3\n" * 3)
    assert len(trace.read_trace(where).at_s) == 3
    where.write_text("arrival_s,input_tokens,output_tokens\n" + "1,20,3\n" * 4)
    with pytest.raises(InputError, match="at most 3 requests"):
        trace.read_trace(where)
