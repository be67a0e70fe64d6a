"""Spoiled copies of valid text: wrong types, numbers that are none, control characters; torn, repeated,
nested.
"""

import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

import yaml

NUMBERS = (
    "nan",
    "NaN",
    ".nan",
    "inf",
    "-inf",
    ".inf",
    "Infinity",
    "-Infinity",
    "1e999",
    "-1e999",
    "1e308",
    "1e-308",
    "5e-324",
    "0",
    "-0.0",
    "-1",
    "-1e30",
    "0.5",
    "1",
    "1.0000001",
    "2",
    "3",
    "7",
    "65536",
    "1000000",
    "1e15",
    "9007199254740993",
    "9" * 400,
    "0x10",
    "1_000",
    "1,5",
    "١٢",
    "½",
    "1e",
    "+",
    "true",
    "null",
    "1k",
    "1K",
    "4q",
    "1..4",
    "4..1",
    "1,2,3",
    "1..100+0",
)
TEXTS = (
    "",
    " ",
    "\x00",
    "\x1b[31mred\x1b[0m",
    "a\nb",
    "\r\n",
    "\u202egpj",
    "\ud7ff\U0001f600",
    "=1+1",
    "@SUM(A1)",
    "../../etc/passwd",
    "/dev/null",
    "/dev/zero",
    "/",
    ".",
    "~",
    "-",
    "--",
    "%s%n",
    "{0}",
    "$(id)",
    "`id`",
    "<script>alert(1)</script>",
    "'",
    '"',
    "\\",
    "x" * 5000,
    "self",
    "ideal",
    "auto",
    "full",
    "none",
    "fp8",
    "bf16,experts=",
    "mtp",
    "ngram",
    "eagle",
    "snapkv:",
    ":",
    ":512",
    "streamingllm:1e9",
    "quest:64,page=0",
    "llama-3.1-8b",
    "H100",
    "!!python/object/apply:os.system [id]",
    "&a [*a]",
    "[[[[",
    "{",
)
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w.])")
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2,
    7,
    10**18,
    10**400,
    0.5,
    -0.5,
    1e308,
    5e-324,
    float("nan"),
    float("inf"),
    float("-inf"),
    "",
    "x",
    "nan",
    "\x00",
    "\x1b[2J",
    "é" * 300,
    [],
    {},
    [[]],
    [None],
    [1, 2, 3],
    {"value": 1},
    {"x": {}},
    ["x"] * 1000,
)
Change = Callable[[Random, str], str]


def value(rng: Random) -> str:
    """What somebody might type after a flag."""
    kind = rng.random()
    if kind < 0.45:
        return rng.choice(NUMBERS)
    if kind < 0.9:
        return rng.choice(TEXTS)
    codes = (
        rng.choice((rng.randrange(1, 128), rng.randrange(0x20, 0xD7FF))) for _ in range(rng.randrange(12))
    )
    return "".join(map(chr, codes))


def near(rng: Random, text: str) -> str:
    """A good value of a flag, changed a little."""
    at = rng.randrange(len(text) + 1)
    inside = text[:at] + value(rng) + text[at:]
    after = f"{text}:{rng.choice(NUMBERS)}"
    torn = (text[:at], text[at:], text + text, text + ",", f"{text},{text}", f"{text}..{text}", inside, after)
    return rng.choice((*torn, f" {text} ", text.upper(), f"-{text}", text.replace("5", "0")))


def spoiled(rng: Random, text: str, kind: str) -> bytes:
    """A file's text, spoiled in one to three places; `kind` is its suffix, which says what it is made of."""
    changes: tuple[Change, ...] = (_number, _number, _number, _line, _characters, _torn, _repeated)
    if kind in TREES:
        changes = (*changes, *(lambda r, t: _tree(r, t, kind),) * 8)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        text = rng.choice(changes)(rng, text)
    data = text.encode("utf-8", "surrogatepass")
    if rng.random() < 0.05 and data:
        at = rng.randrange(len(data))
        data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
    return data


def _number(rng: Random, text: str) -> str:
    numbers = list(NUMBER.finditer(text))
    if not numbers:
        return text + rng.choice(NUMBERS)
    match = rng.choice(numbers)
    try:
        scaled = f"{float(match[0]) * rng.choice((-1, 0, 1e-12, 1e-3, 0.5, 1.02, 2, 10, 1e3, 1e12)):g}"
    except (ValueError, OverflowError):
        scaled = "nan"
    return text[: match.start()] + rng.choice((scaled, rng.choice(NUMBERS))) + text[match.end() :]


def _line(rng: Random, text: str) -> str:
    lines = text.split("\n")
    at = rng.randrange(len(lines))
    other = rng.randrange(len(lines))
    new = rng.choice(
        ([], [lines[at]] * 2, [lines[other]], [rng.choice(TEXTS), lines[at]], [lines[at].replace(",", ";")])
    )
    return "\n".join([*lines[:at], *new, *lines[at + 1 :]])


def _characters(rng: Random, text: str) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice(TEXTS) + text[at + rng.randrange(3) :]


def _torn(rng: Random, text: str) -> str:
    return text[: rng.randrange(len(text) + 1)]


def _repeated(rng: Random, text: str) -> str:
    depth = rng.choice((10, 60, 3000, 100_000))
    return rng.choice(
        (text + text, "[" * depth + text, '{"a":' * depth + "1", "- " * depth, "\ufeff" + text, "")
    )


def _json(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False)


TREES: dict[str, tuple[Callable[[str], Any], Callable[[Any], str]]] = {
    ".json": (json.loads, _json),
    ".yaml": (yaml.safe_load, lambda data: yaml.safe_dump(data, allow_unicode=True)),
    ".jsonl": (
        lambda text: [json.loads(line) for line in text.splitlines() if line],
        lambda data: "\n".join(map(_json, data)) if isinstance(data, list) else _json(data),
    ),
}


def _tree(rng: Random, text: str, kind: str) -> str:
    """Change a value, a key or the shape somewhere inside; as text where it is no tree any more."""
    load, dump = TREES[kind]
    try:
        data = load(text)
        places = [place for place in _places(data) if place]
        if not places:
            return dump(rng.choice(VALUES))
        *way, last = rng.choice(places)
        inside = data
        for step in way:
            inside = inside[step]
        _change(rng, inside, last)
        return dump(data)
    except (ValueError, RecursionError, OverflowError, AttributeError, TypeError, yaml.YAMLError):
        return _number(rng, text)


def _places(data: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(data, dict):
        inner = data.items()
    else:
        inner = enumerate(data[:20]) if isinstance(data, list) else ()
    return [place, *(deeper for key, value in inner for deeper in _places(value, (*place, key)))]


def _change(rng: Random, inside: Any, key: Any) -> None:
    old = inside[key]
    kind = rng.random()
    if kind < 0.45:
        inside[key] = rng.choice(VALUES)
    elif kind < 0.6 and isinstance(old, (int, float)) and not isinstance(old, bool):
        inside[key] = old * rng.choice((-1, 0, 0.5, 2, 3, 1000))
    elif kind < 0.75:
        del inside[key]
    elif kind < 0.85:
        inside[key] = rng.choice(([old], {"value": old}, str(old), [old, old], {str(old)[:20]: old}))
    elif isinstance(inside, dict):
        inside[rng.choice(("", "x", f"{key}s", f" {key}", str(key).upper(), "\x1b[0m", "__class__"))] = old
    else:
        inside.insert(rng.randrange(len(inside) + 1), rng.choice((old, *VALUES)))
