"""`import perfmodel as pm`: what it offers, that it is typed, and that an answer is the JSON of the command
line.
"""

import inspect
import json
import math
import re
import sys
from dataclasses import fields, is_dataclass
from importlib.metadata import version
from itertools import product
from random import Random
from typing import Any
from unittest import mock

import jsonschema
import msgspec
import numpy as np
import pytest

import perfmodel as pm
from perfmodel import __main__, cli
from perfmodel.answers.answer import Answer, Rows, items, plain
from perfmodel.answers.declaration import arguments, flag
from perfmodel.answers.schema import ANSWERS, answer_type, schema
from perfmodel.errors import InputError, in_names
from tests.commands import run
from tests.refusals import refused

LLAMA = {"model": "llama-3.1-8b", "hardware": "h100"}
SPARSE = LLAMA | {"draft_kv": "snapkv:1k", "alpha": 0.8}
ASKED: dict[str, dict[str, Any]] = {
    "whatif": SPARSE | {"batch": 4, "context": "32k", "gamma": 2},
    "ops": LLAMA | {"batch": 4, "context": "32k", "stage": "verify", "gamma": 3},
    "inflection": SPARSE | {"batch": 16, "gamma": 2},
    "advise": LLAMA
    | {"context": "16k", "batch": "1..8", "rate": {"eagle": "0.7/0.6", "self@snapkv:1k": 0.8}},
    "schedule": LLAMA | {"context": "4k", "draft": "ngram", "rate": "0.4x3", "max_batch": 8},
    "tree": LLAMA | {"batch": 4, "context": "4k", "draft": "llama-3.2-1b", "rates": [0.6, 0.1], "size": 16},
    "hierarchy": SPARSE
    | {"batch": 1, "context": "64k", "small": "llama-3.2-1b", "small_rate": 0.6, "gamma_2": "4,5"},
    "compare": SPARSE | {"context": "8k", "gamma": 3},
    "traffic": LLAMA
    | {"input_len": "2k", "output_len": 200, "request_rate": 1, "draft": "eagle", "alpha": 0.7, "gamma": "1"},
}
TABLES = ("models", "gpus", "engines")
SEVERAL = ("inflection", "tree", "hierarchy", "compare")
"""Verbs whose JSON has rows, since there can be several."""


def typed(given: Any) -> list[str]:
    """A value as it is typed; a mapping as repeated flags."""
    if isinstance(given, dict):
        return [f"{key}={value}" for key, value in given.items()]
    return [",".join(map(str, given)) if isinstance(given, list | tuple) else str(given)]


@pytest.mark.parametrize("verb", ASKED)
def test_an_answer_is_typed_frozen_and_short_in_a_notebook(verb: str) -> None:
    answer = getattr(pm, verb)(**ASKED[verb])
    assert isinstance(answer, Answer)
    assert is_dataclass(answer)
    assert repr(answer).startswith(f"{type(answer).__name__}(")
    assert "\n" not in repr(answer)
    assert len(repr(answer)) < 300
    table = answer._repr_html_()
    parts = [value for value in items(answer).values() if isinstance(value, tuple) and value]
    assert table.count("<table>") == 1 + sum(is_dataclass(part[0]) for part in parts)
    assert not {*"[{"} & {*table}, "a value that has values is no fact"
    with pytest.raises(AttributeError):
        setattr(answer, fields(answer)[0].name, None)
    again = getattr(pm, verb)(**ASKED[verb])
    assert {answer: verb}[again] == verb, "equal answers have equal hashes"


@pytest.mark.parametrize("verb", ASKED)
def test_an_answer_is_the_json_of_its_verb(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    function = getattr(pm, verb)
    as_dict = function(**ASKED[verb]).as_dict()
    assert as_dict.pop("schema_version") == 2
    words = [
        word for name, value in ASKED[verb].items() for text in typed(value) for word in (flag(name), text)
    ]
    printed = json.loads(run(capsys, verb, *words, "--json"))
    assert printed["schema_version"] == 2
    (row,) = printed["rows"] if verb in SEVERAL else [printed]
    row.pop("schema_version", None)
    assert json.loads(json.dumps(as_dict, allow_nan=False)) == row
    versioned = row | {"schema_version": 2}
    jsonschema.validate(versioned, schema(function))
    msgspec.convert(versioned, answer_type(function))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(versioned | {"more": 1}, schema(function))


def test_a_sweep_and_a_sensitivity_print_their_rows() -> None:
    grid = pm.sweep(**SPARSE, batch="1..30", context="32k", gamma=2)
    assert "snapkv:1024       4     32768" in str(grid)
    assert str(grid).endswith("10 more rows; to_frame() has all of them")
    assert "snapkv:1024" in grid._repr_html_()
    ranked = pm.sensitivity(**SPARSE, batch=4, context="32k", gamma=2)
    assert "only this input changes" in str(ranked)


def test_every_verb_of_the_engine_is_offered_and_tried() -> None:
    others = {"sweep", "explore", "plot", "mcp", "serve", *TABLES, "kv", "calibrations", "validate"}
    assert set(ASKED) == set(cli.COMMANDS) - others <= set(pm.__all__)
    assert set(dir(pm)) == set(pm.__all__)
    assert set(ASKED) == set(ANSWERS)
    assert all(getattr(pm, name) is not None for name in pm.__all__)
    assert not hasattr(pm, "no_such_thing")
    assert pm.__version__ == version("perfmodel")
    query = pm.Query(**ASKED["whatif"])
    assert set(dir(query)) == {"as_dict", *query.as_dict()}


@pytest.mark.parametrize("verb", TABLES)
def test_a_table_of_names_is_that_of_the_command_line(verb: str, capsys, monkeypatch) -> None:
    frame = getattr(pm, verb)()
    rows = json.loads(run(capsys, verb, "list", "--json"))["rows"]
    assert json.loads(frame.to_json(orient="records", double_precision=15)) == rows
    monkeypatch.setitem(sys.modules, "pandas", None)
    refused(rf"pm\.{verb}\(\): needs pandas", getattr(pm, verb))


def test_help_shows_the_types_of_values() -> None:
    words = str(inspect.signature(pm.whatif))
    assert "batch: int" in words
    assert "alpha: float | None = None" in words
    assert "Parsed" not in words


def test_a_device_names_the_calibration_of_its_answers(capsys) -> None:
    for name in ("h100", "mi300x", "rtx-4090"):
        shown = json.loads(run(capsys, "gpus", "show", name, "--json"))
        answer = pm.whatif("llama-3.2-1b", name, 1, 1024, gamma=0)
        assert pm.load_gpu(name).calibration == shown["calibration"] == answer.calibration.name


def test_every_answer_is_a_frame() -> None:
    answer = pm.whatif(**ASKED["whatif"])
    frame = answer.to_frame()
    assert len(frame) == 1
    assert frame["target_step.predicted_s"][0] == answer.target_step.predicted_s
    advice = pm.advise(**ASKED["advise"])
    table = advice.to_frame()
    assert len(table) == len(advice.layouts) > 0
    assert table["gamma"][0] == advice.layouts[0].gamma


def test_no_rows_are_none_in_a_notebook() -> None:
    assert Rows(())._repr_html_() == "<p>none</p>"
    assert repr(Rows(())) == "Rows(none)"


def test_numbers_of_numpy_are_those_of_json() -> None:
    values = {"one": np.float64(1.5), "is": (np.bool_(True),), "several": np.arange(2)}
    assert json.dumps(plain(values)) == '{"one": 1.5, "is": [true], "several": [0, 1]}'


def test_a_sweep_and_an_exploration_have_a_file_of_their_own(monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    point = ("--model", "llama-3.2-1b", "--hardware", "a100", "--batch", "1,2", "--context", "1k,2k")
    assert cli.run(["sweep", *point, "--gamma", "0"]) == 0
    assert cli.run(["explore", *point, "--alpha", "0.8"]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"sweep.csv", "explore.html"}


def test_a_question_is_asked_again_with_changes() -> None:
    query = pm.Query("llama-3.1-8b", "h100", batch=4, context="32k", draft_kv="snapkv:1k", alpha=0.8)
    assert query.context == 32768
    assert pm.whatif(query) == pm.whatif(**{**ASKED["whatif"], "gamma": None})
    assert pm.whatif(query, gamma=2) == pm.whatif(**ASKED["whatif"])
    assert pm.inflection(query, batch=16, gamma=2).gamma == 2
    assert query.draft is None
    tree = {"rates": [0.8, 0.1]}
    assert pm.tree(query, **tree) == pm.tree(query, **tree, draft="self"), (
        "what is left open is each verb's default"
    )
    with pytest.raises(TypeError, match="one question"):
        pm.whatif(query, 3)
    refused(
        r"whatif\(\): no argument named 'contxt'; did you mean context",
        pm.whatif,
        "llama-3.1-8b",
        "h100",
        batch=4,
        contxt=1,
    )


def test_messages_name_arguments_but_leave_what_was_given() -> None:
    def refuse(error: InputError) -> None:
        raise error

    error = InputError(
        "--draft-kv: needs --gamma-1, see `perfmodel tree --rates x`; the --tp, given '--batch'"
    )
    assert str(error).startswith("--draft-kv: needs --gamma-1")
    with pytest.raises(InputError) as caught:
        in_names(refuse)(error)
    assert (
        str(caught.value)
        == "draft_kv: needs gamma_1, see `perfmodel tree --rates x`; the tp, given '--batch'"
    )
    assert error.as_flags.startswith("--draft-kv: needs --gamma-1")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pm.tree("llama-3.1-8b", "h100", batch=1, context="8k"), "rates: must be given"),
        (lambda: pm.load_gpu("h10"), "hardware: no device named 'h10'; did you mean h100"),
        (lambda: pm.load_model("lama-3.1-8b"), "model: no model named"),
        (
            lambda: pm.Query("llama-3.1-8b", "h100", 1, 1, alpha=2),
            "alpha: must be a number from 0 to 1, given 2",
        ),
        (lambda: pm.Query("llama-3.1-8b", "h100", 1, 1, alfa=0.8), "Query(): no argument named 'alfa'"),
        (lambda: pm.whatif("llama-3.1-8b", "h100", context=1), "batch: must be given"),
        (lambda: pm.inflection(model="llama-3.1-8b"), "hardware: must be given"),
        (lambda: pm.Query("llama-3.1-8b", "h100", 1, "4q"), "context: must be a positive whole number"),
        (lambda: pm.tree(**ASKED["tree"] | {"rates": "often"}), "rates: must be a number"),
        (lambda: pm.advise(**ASKED["advise"] | {"objective": "cost"}), "objective cost: needs price"),
        (
            lambda: pm.plots.save(pm.plots.surface(pm.Query(**SPARSE, batch=1, context=1)), "x.gif"),
            "output: must be a file name ending in .png or .svg or .pdf",
        ),
    ],
)
def test_what_python_refuses_names_its_argument(call: Any, message: str) -> None:
    refused(f"^{re.escape(message)}", call)


# What is given is of its argument's type, or refused in a line.

HOSTILE: list[Any] = [
    None,
    True,
    3,
    0,
    -1,
    1.5,
    math.nan,
    math.inf,
    10**400,
    1j,
    "",
    "x",
    b"8",
    [],
    [None],
    [[8]],
    {},
    {"self": 1},
    object(),
    np.array(8),
    np.array([0.5]),
    np.bool_(True),
]


def answered_or_refused(verb: str, name: str, given: Any) -> None:
    message = ""
    try:
        getattr(pm, verb)(**ASKED[verb] | {name: given})
    except InputError as error:
        message = str(error)
    assert "\n" not in message
    assert len(message) < 800


@pytest.mark.parametrize("verb", ASKED)
def test_some_of_what_may_be_given_is_answered_or_refused_in_a_line(verb: str) -> None:
    """To each argument one of the values, not the same to each; the others are slow."""
    for name in arguments(getattr(pm, verb).question):
        answered_or_refused(verb, name, Random(f"{verb} {name}").choice(HOSTILE))


@pytest.mark.slow
@pytest.mark.parametrize("verb", ASKED)
def test_whatever_is_given_is_answered_or_refused_in_a_line(verb: str) -> None:
    for name, given in product(arguments(getattr(pm, verb).question), HOSTILE):
        answered_or_refused(verb, name, given)


def test_ctrl_c_while_the_modules_load_has_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    for name, value in (("os.environ", {}), ("gc.set_threshold", id), ("os._exit", ended.append)):
        monkeypatch.setattr(name, value)
    monkeypatch.setattr("perfmodel.cli.main", mock.Mock(side_effect=KeyboardInterrupt))
    __main__.main()
    assert ended == [130]
