"""Hostile and broken files end in one line of InputError, never in another exception."""

import contextlib
import json
from pathlib import Path

import pytest
import yaml

from perfmodel.errors import InputError
from perfmodel.specs import files
from perfmodel.specs.calibration import load_calibration
from perfmodel.specs.gpu import load_gpu
from perfmodel.specs.model import load_model
from perfmodel.specs.strict_yaml import read_yaml

LOADERS = [load_gpu, load_model, load_calibration]
BOMB = "a: &a [x, x, x, x]\n" + "".join(
    f"{c}: &{c} [{', '.join([f'*{p}'] * 9)}]\n" for p, c in zip("abcdefgh", "bcdefghi", strict=True)
)
YAML = {
    "billion laughs": BOMB, "alias": "a: &x {b: 1}\nc: *x\n", "alias loop": "a: &x [*x]\n",
    "merge key": "a: {b: 1}\n<<: {c: 1}\n", "duplicate key": "name: a\nname: b\n",
    "nested duplicate key": "memory: {value: 1, value: 2}\n", "deep nesting": "a: " + "[" * 50000 + "]" * 50000,
    "deep mapping": "\n".join(" " * i + "a:" for i in range(900)), "list": "- 1\n- 2\n", "scalar": "42\n", "empty": "",
    "tab": "a:\n\t- b\n", "python object": "a: !!python/object/apply:os.system ['true']\n",
    "unknown tag": "a: !thing 1\n", "tagged mapping": "a: !!map [x, y]\n", "tagged set": "a: !!set {x, x}\n",
    "tagged integer": "a: !!int zebra\n", "tagged time": "a: !!timestamp zebra\n", "bad date": "a: 2024-99-99\n",
    "list as key": "? [1, 2]\n: x\n", "null key": "~: 1\n", "two documents": "a: 1\n---\nb: 2\n",
    "control characters": 'a: "\\x00\\e[31m"\n"\\e[31mkey": 1\n', "raw control": "a: \x07\n",
    "newline in key": '"a\\nb": 1\n', "long key": "k" * 5000 + ": 1\n",
    "huge hex integer": "name: 0x" + "f" * 100000 + "\n", "huge integer": "name: " + "9" * 100000 + "\n",
    "nan": "name: .nan\n", "infinite": "name: .inf\n", "sexagesimal": "name: 1:2:3\n",
}  # fmt: skip
JSON = {
    "nan": '{"name": NaN}', "infinity": '{"hidden_size": -Infinity}',
    "overflow": '{"model_type": "llama", "num_hidden_layers": 1e999}', "duplicate key": '{"a": 1, "a": 2}',
    "nested duplicate key": '{"a": {"b": 1, "b": 1}}', "deep nesting": '{"a": ' + "[" * 100000 + "]" * 100000 + "}",
    "deep, just parsed": '{"model_type": ' + "[" * 900 + "]" * 900 + "}", "list": "[1]", "null": "null", "empty": "",
    "cut off": '{"a": ', "trailing text": "{} {}", "huge integer": '{"num_hidden_layers": ' + "9" * 100000 + "}",
    "big integer": '{"model_type": "llama", "num_hidden_layers": ' + "9" * 4000 + "}",
    "lone surrogate": '{"name": "\\ud800", "title": "x", "source": "abc"}',
    "newline in key": '{"name": "x", "title": "x", "source": "abc", "a\\nb": 1}',
    "text as type": '{"model_type": "a\\nb\\u001b[31m"}',
}  # fmt: skip


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


def test_json_may_hold_infinity_where_python_writes_it_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"a": Infinity}')
    assert files.read_mapping(path, infinity=True) == {"a": float("inf")}
    for text, infinity in (("Infinity", False), ("NaN", True), ("-Infinity", True)):
        path.write_text(f'{{"a": {text}}}')
        with pytest.raises(InputError, match=f"a: {text} is not allowed"):
            files.read_mapping(path, infinity=infinity)


def test_yaml_may_be_fifty_deep() -> None:
    """The mapping of a file is the first level."""
    assert read_yaml("a: " + "[" * 49 + "]" * 49)["a"]
    with pytest.raises(ValueError, match="nested deeper than 50"):
        read_yaml("a: " + "[" * 50 + "]" * 50)
    assert read_yaml("".join(f"k{i}: [1]\n" for i in range(60)))["k59"] == [1]
    for text, line in (("a: 1\na: 2", 2), ("a: 1\n? [1]\n: 2", 2), ("b: !!map [1]", 1)):
        with pytest.raises(ValueError, match=f"line {line}: "):
            read_yaml(text)


def test_what_was_given_is_shown_where_it_is_short_and_plain(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    many = "1" + "0" * 39
    for given, shown in ((many, many), (many + "0", "<class 'int'>"), ("[1]", "<class 'list'>")):
        path.write_text(f"name: x\ntitle: x\nvendor: x\narchitecture: {given}\n")
        assert f", given {shown}" in refused(load_gpu, str(path))
    for name in ("2025-a-device.yaml", "2026-a-device.yaml"):
        source = (files.data_directory("gpus") / "l4-24gb.yaml").read_text()
        (tmp_path / name).write_text(source.replace("title: ", f"title: {name[:4]} "))
    assert load_gpu(f"{tmp_path}/").title.startswith("2026")


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
    """Escape sequences and line breaks in names, titles and lists become spaces; the rest of the text stays."""
    good = files.read_mapping(files.data_directory("gpus") / "l4-24gb.yaml")
    path = tmp_path / "x.json"
    link = good["host_link"] | {"name": "a\x1b]0;title\x07b"}
    path.write_text(json.dumps(good | {"title": "L4 \x1b[31mγ\r\nred", "aliases": ["l\x08"], "host_link": link}))
    gpu = load_gpu(str(path))
    assert (gpu.title, gpu.aliases, gpu.host_link and gpu.host_link.name) == ("L4 [31mγ red", ("l",), "a ]0;title b")


@pytest.mark.parametrize("load", LOADERS)
def test_every_way_to_damage_a_good_file(tmp_path: Path, load: object) -> None:
    """Each leaf of a bundled file left out or replaced by junk: refused, or still valid, but no other exception."""
    at = ("gpus/h20-sxm-96gb", "models/deepseek-v3", "calibrations/a100-sxm-80gb.literature")[LOADERS.index(load)]
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


@pytest.mark.parametrize("kind", ["gpus", "models", "calibrations"])
def test_bundled_files_are_plain_yaml(kind: str) -> None:
    """They are read without the screening that files of others get; it would find nothing."""
    for path in sorted(files.data_directory(kind).glob("*.yaml")):
        assert files.read_mapping(path) == yaml.safe_load(path.read_text(encoding="utf-8"))
