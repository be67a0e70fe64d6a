"""Hostile and broken files end in one line of InputError, never in another exception."""

import contextlib
import json
import math
from pathlib import Path
from typing import Any, Literal

import pytest

from perfmodel import advise, whatif
from perfmodel.errors import InputError
from perfmodel.specs import Calibration, GPUSpec, ModelSpec, files, load_calibration, load_gpu, load_model
from perfmodel.specs.acceptance.acceptance_file import AcceptanceFile
from perfmodel.specs.boundary.faults import find_fault
from perfmodel.specs.boundary.strict_yaml import read_yaml
from tests.specs.configs import DEVICE, table
from tests.specs.test_acceptance_rows import ROW

LOADERS = [load_gpu, load_model, load_calibration]
BOMB = "a: &a [x, x, x, x]\n" + "".join(
    f"{c}: &{c} [{', '.join([f'*{p}'] * 9)}]\n" for p, c in zip("abcdefgh", "bcdefghi", strict=True)
)
CASES = table("bad_files")
YAML = CASES["yaml"] | {
    "billion laughs": BOMB,
    "deep nesting": "a: " + "[" * 50000 + "]" * 50000,
    "long key": "k" * 5000 + ": 1\n",
    "deep mapping": "\n".join(" " * i + "a:" for i in range(900)),
    "huge integer": "name: " + "9" * 100000 + "\n",
    "huge hex integer": "name: 0x" + "f" * 100000 + "\n",
}
JSON = CASES["json"] | {
    "deep nesting": '{"a": ' + "[" * 100000 + "]" * 100000 + "}",
    "deep, just parsed": '{"model_type": ' + "[" * 900 + "]" * 900 + "}",
    "huge integer": '{"num_hidden_layers": ' + "9" * 100000 + "}",
    "big integer": '{"model_type": "llama", "num_hidden_layers": ' + "9" * 4000 + "}",
}


def refused(load: object, name: str) -> str:
    with pytest.raises(InputError) as error:
        load(name)  # type: ignore[operator]
    message = str(error.value)
    assert message.isprintable()
    assert len(message) < 1500
    return message


@pytest.mark.parametrize("name", [*YAML, *(f"{name} in JSON" for name in JSON)])
def test_hostile_text(tmp_path: Path, name: str) -> None:
    path = tmp_path / ("x.yaml" if name in YAML else "x.json")
    path.write_text(YAML.get(name) or JSON.get(name.removesuffix(" in JSON"), ""))
    assert str(path) in refused(load_gpu if name in YAML else load_model, str(path))


GOOD: dict[str, tuple[type, dict[object, object]]] = {
    "gpu": (GPUSpec, DEVICE),
    "model": (ModelSpec, files.read_mapping(files.data_directory("models") / "llama-3.1-8b.yaml")),
    "calibration": (Calibration, load_calibration("a100-sxm-80gb.magicdec").as_mapping()),
    "ideal": (Calibration, load_calibration("ideal").as_mapping()),
    "acceptance": (AcceptanceFile, {"schema_version": 1, "source": "a test", "rows": [ROW | {"alpha": 0.5}]}),
}
HUGE = [("model", {"hidden_size": 1 << 100000}, "hidden_size"), ("model", {1: 2}, "1")]


@pytest.mark.parametrize(("kind", "changes", "words"), [*CASES["refused"], *HUGE])
def test_a_bad_file_is_one_line_naming_the_key(kind: str, changes: dict[object, object], words: str) -> None:
    """A good file with some keys changed, or the row of an acceptance file."""
    if kind == "acceptance row":
        kind = "acceptance"
        changes = {"rows": [ROW | changes]}
    spec, good = GOOD[kind]
    with pytest.raises(InputError) as error:
        files.parse(spec, good | changes, "mine.yaml")
    assert str(error.value).startswith("mine.yaml: ")
    assert words in str(error.value)
    assert str(error.value).isprintable()


def test_json_may_hold_infinity_where_python_writes_it_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"a": Infinity}')
    assert files.read_mapping(path, infinity=True) == {"a": float("inf")}
    for text, infinity in (("Infinity", False), ("NaN", True), ("-Infinity", True)):
        path.write_text(f'{{"a": {text}}}')
        with pytest.raises(InputError, match=f"{text} in line 1 is not allowed"):
            files.read_mapping(path, infinity=infinity)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("x.yaml", "a: 1\nsecret: 1\nsecret: 2\n", "line 3: a key is given twice"),
        ("x.yaml", "a: !secret 1", "line 1: tags (!name) are not allowed"),
        ("x.json", '{"a": 1,\n"secret": 1, "secret": 2}', "the key in line 2 is given twice"),
        ("x.json", '{"a": 1,\n\n"secret": NaN}', "NaN in line 3 is not allowed"),
        ("x.json", '{"\\u0073ecret": 1, "\\u0073ecret": 2}', "the key in a line is given twice"),
    ],
)
def test_a_refusal_of_a_text_quotes_nothing_of_it(name: str, text: str, words: str, tmp_path: Path) -> None:
    """It may be of another kind."""
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError) as error:
        files.read_mapping(path)
    assert str(error.value).endswith(words)


def test_a_refusal_quotes_forty_characters_of_a_file_and_eighty_of_a_flag(tmp_path: Path) -> None:
    method = "k" * 300
    row = {"target": "llama-3.1-8b", "draft": "self", "context_tokens": 1000, "alpha": 0.5}
    rows = {"schema_version": 1, "source": "a test", "rows": [row | {"draft_kv": method}]}
    path = tmp_path / "rates.json"
    path.write_text(json.dumps(rows))
    question = {"model": "llama-3.1-8b", "hardware": "h100", "batch": 1, "context": 1000, "draft": "self"}
    with pytest.raises(InputError, match=f"'{'k' * 37}\\.\\.\\.'"):
        advise(model="llama-3.1-8b", hardware="h100", acceptance=str(path))
    with pytest.raises(InputError, match=f"'{'k' * 77}\\.\\.\\.'"):
        whatif(**question, alpha=0.5, draft_kv=method)


def test_yaml_may_be_fifty_deep() -> None:
    """The mapping of a file is the first level."""
    assert read_yaml("a: " + "[" * 49 + "]" * 49)["a"]
    with pytest.raises(ValueError, match="nested deeper than 50"):
        read_yaml("a: " + "[" * 50 + "]" * 50)
    assert read_yaml("".join(f"k{i}: [1]\n" for i in range(60)))["k59"] == [1]
    numbers = read_yaml("[1e-5, 2E3, -1e+2, +.5, 1., 007, 0x1e5, 0xFF, 0o17, -.inf, .nan]")
    assert numbers[:-1] == [1e-5, 2000.0, -100.0, 0.5, 1.0, 7, 0x1E5, 255, 15, -math.inf]
    assert math.isnan(numbers[-1])
    assert read_yaml("[true, FALSE, ~, null, '']") == [True, False, None, None, ""]
    plain = ["1e", "yes", "off", "1:30", "1_000", "2026-11-23", "0.22.0", "tRue", "1e5x", "e5", "."]
    assert read_yaml(f"[{', '.join(plain)}, '5', \"null\"]") == [*plain, "5", "null"]
    assert read_yaml("") is None
    assert read_yaml("a:\n") == {"a": None}
    assert read_yaml("--- 1\n...\n") == 1
    with pytest.raises(ValueError, match="one document"):
        read_yaml("a: 1\n---\nb: 2\n")
    for text, line in (("a: 1\na: 2", 2), ("a: 1\n? [1]\n: 2", 2), ("b: !!map [1]", 1)):
        with pytest.raises(ValueError, match=f"line {line}: "):
            read_yaml(text)


@pytest.mark.parametrize("load", LOADERS)
def test_names_that_are_none(tmp_path: Path, load: object) -> None:
    for name in ("", " ", "no-such-thing", "..", "x" * 5000, "a\nb", "a\0b", "\ud800", "../none"):
        refused(load, name)
    for suffix, text in ((".yaml", "a: 1"), (".json", "{}")):
        path = tmp_path / f"a\nb{suffix}"
        refused(load, str(path))
        path.write_text(text)
        for name in (str(path), str(tmp_path / f"a\0b{suffix}"), "x" * 1000 + suffix):
            refused(load, name)


def test_texts_of_a_file_reach_no_terminal_as_they_are(tmp_path: Path) -> None:
    """Escape sequences and line breaks in names, titles and lists become spaces; the rest of the text
    stays.
    """
    good = files.read_mapping(files.data_directory("gpus") / "l4-24gb.yaml")
    path = tmp_path / "x.json"
    link = good["host_link"] | {"name": "a\x1b]0;title\x07b"}
    path.write_text(
        json.dumps(good | {"title": "L4 \x1b[31mγ\r\nred", "aliases": ["l\x08"], "host_link": link})
    )
    gpu = load_gpu(str(path))
    assert gpu.title == "L4 [31mγ red"
    assert gpu.aliases == ("l",)
    assert (gpu.host_link and gpu.host_link.name) == "a ]0;title b"


@pytest.mark.parametrize("load", LOADERS)
def test_every_way_to_damage_a_good_file(tmp_path: Path, load: object) -> None:
    """Each leaf of a bundled file left out or replaced by junk: refused, or still valid, but no other
    exception.
    """
    at = ("gpus/h20-sxm-96gb", "models/deepseek-v3", "calibrations/a100-sxm-80gb.literature")[
        LOADERS.index(load)
    ]
    kind, _, name = at.partition("/")
    good = files.read_mapping(files.data_directory(kind) / f"{name}.yaml")
    path = tmp_path / "x.json"

    def attempt(data: object) -> None:
        path.write_text(json.dumps(data, default=str))
        with contextlib.suppress(InputError):
            load(str(path))  # type: ignore[operator]

    for key in good:
        attempt({k: v for k, v in good.items() if k != key})
        for junk in (None, True, -1, 0, 1e300, "", "x\ny", [], {}, [[]], {"value": {}}, 10**30):
            attempt(good | {key: junk})
            if isinstance(good[key], dict):
                for inner in good[key]:
                    attempt(good | {key: good[key] | {inner: junk}})


@pytest.mark.parametrize(
    ("type_", "value", "place", "message"),
    [
        (dict[int, float], {"2": 1.0, "3": "y"}, ("3",), "must be a number, given 'y'"),  # as in JSON
        (Literal["a", "b", "c"], "y", (), "must be a or b or c, given 'y'"),
        (Literal["a", "b", "c", "d"], "y", (), "must be one of a, b, c, d, given 'y'"),
    ],
)
def test_a_fault_in_plain_words(type_: Any, value: Any, place: tuple[str, ...], message: str) -> None:
    assert find_fault(type_, value) == (place, message)


def test_a_file_of_more_than_4_mib_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    path.write_text("#" * (4 * 2**20 - 5) + "\na: 1")
    assert files.read_mapping(path) == {"a": 1}
    path.write_text("#" * (4 * 2**20 - 4) + "\na: 1")
    with pytest.raises(InputError, match="at most 4194304 bytes, given 4194305"):
        files.read_mapping(path)
