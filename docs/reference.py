"""The page of the command line, from the commands themselves: common flags once, then what each verb has of
its own.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from lists import NOTE  # in this folder

from perfmodel import cli
from perfmodel.validate.accuracy.markdown import table

CATALOGUES = ("gpus", "models", "kv", "engines", "calibrations")
DEMO = (
    "whatif --model llama-3.1-8b --hardware a100-sxm-80gb --tp 8 --batch 64 --context 32000 "
    "--draft self --draft-kv streamingllm:512 --gamma 2"
)
Cells = tuple[str, ...]
Flag = tuple[str, Cells]
"""A name, and how the flag is shown."""
HEAD = f"""{NOTE}

# Command line

This page lists the verbs (subcommands) of `perfmodel` and their flags. The exit status is:

- 0 for success
- 1 if a check failed, or if a search (`advise`, `schedule`) found nothing or could not decide
- 2 for wrong input; one line on stderr names the argument or file, the given value and the allowed values
- 130 after an interruption

`--help` lists the main flags of a verb, and `--help-all` lists all of its flags. In a count, `32k` is 32768
and `1m` is 1048576. Lists are written with commas (`1,8,64`) or as ranges, which can have a step or a factor
(`1..16`, `1000..9000+500`, `1..256x2`). `eval "$(_PERFMODEL_COMPLETE=bash_source perfmodel)"` (or
`zsh_source`, `fish_source`) makes the tab key complete verbs, flags, and the names of models, devices,
engines and KV methods.

## Flags of most verbs

These flags have the same meaning in all verbs. The section of a verb lists its additional flags, and the
flags whose meaning or default differs from this table. Each section also names the flags of this table that
its verb does not have.

"""


def page(printed: Callable[[list[str]], str]) -> str:
    """The whole page. printed: what a command prints."""
    commands = {name: cli.command(name) for name in cli.COMMANDS}
    validate = commands.pop("validate")
    shared = [
        (name, cells) for name, cells in _flags(commands["whatif"]) if name not in ("sensitivity", "verbose")
    ]
    parts = [f"{HEAD}{_table(shared)}\n"]
    for name, command in commands.items():
        if name in CATALOGUES[1:]:
            parts.append(f"## perfmodel {name}\n\n{cli.COMMANDS[name]} See `perfmodel {CATALOGUES[0]}`.\n")
            own = {verb: of for verb, of in command.commands.items() if verb not in ("list", "show", "check")}
            parts += _verbs(name, own, shared)
        elif verbs := getattr(command, "commands", None):
            known = [*shared, *(flag for of in ("advise", "traffic") for flag in _flags(commands[of]))]
            parts += [f"## perfmodel {name}\n\n{cli.COMMANDS[name]}\n", *_group(name, verbs, known)]
        else:
            text = f"{_paragraphs(command.help)}\n\n{_lacking(command, shared)}{_list(_own(command, shared))}"
            parts.append(f"## perfmodel {name}\n\n{text.rstrip()}\n")
    parts += [
        f"## perfmodel validate\n\n{cli.COMMANDS['validate']}\n",
        *_group("validate", validate.commands, []),
    ]
    return "\n".join([*parts, _contract(printed)])


def _group(name: str, verbs: dict[str, Any], known: list[Flag]) -> Iterator[str]:
    """The flags that several verbs of a group have alike, and a paragraph for each verb."""
    every = [flag for command in verbs.values() for flag in _own(command, known)]
    common = [flag for flag in dict.fromkeys(every) if every.count(flag) > 1]
    if common:
        yield f"These flags belong to several of the verbs below:\n\n{_table(common)}\n"
    yield from _verbs(name, verbs, [*known, *common], common)


def _verbs(name: str, verbs: dict[str, Any], known: list[Flag], named: Sequence[Flag] = ()) -> Iterator[str]:
    """A paragraph for each verb of a group, which of the flags `named` it has, and those that are its own."""
    for verb, command in verbs.items():
        arguments = [p.make_metavar(None) for p in command.params if p.param_type_name == "argument"]
        also = ", ".join(f"`{_long(flag)}`" for flag, cells in _flags(command) if (flag, cells) in named)
        said = f"`perfmodel {' '.join((name, verb, *arguments))}`: {_paragraphs(command.help)}"
        if also:
            yield f"{said} `{verb}` also accepts these flags from the table above: {also}.\n"
        else:
            yield f"{said}\n"
        if own := _own(command, known):
            yield f"{_list(own)}"


def _flags(command: Any) -> list[Flag]:
    return [(p.name, _cells(p)) for p in command.params if p.param_type_name == "option"]


def _own(command: Any, known: list[Flag]) -> list[Flag]:
    """The flags of a command that it has not just as others."""
    return [flag for flag in _flags(command) if flag not in known]


def _long(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _lacking(command: Any, shared: list[Flag]) -> str:
    """Which of the common flags a command does not have."""
    names = {param.name for param in command.params}
    had = [f"`{_long(name)}`" for name, _ in shared if name in names]
    lacking = [f"`{_long(name)}`" for name, _ in shared if name not in names]
    if not had or not lacking:
        return ""
    if len(had) < len(lacking):
        return f"Of the common flags it has only {', '.join(had)}.\n\n"
    *first, last = lacking
    missing = f"{', '.join(first)} and {last}" if first else last
    return f"This verb has all common flags except {missing}.\n\n"


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _table(flags: Iterable[Flag]) -> str:
    return "\n".join(
        table(["flag", "value", "default", "meaning"], [cells for _, cells in flags], text_columns=range(4))
    )


def _list(own: Iterable[Flag]) -> str:
    """A line for each flag."""
    lines = []
    for _, (flags, value, default, what) in own:
        said = " (required)" if default == "required" else f" (default: {default})" if default else ""
        lines.append(f"- {flags}{f' {value}' if value else ''}: {what}{said}\n")
    return "".join(lines)


def _cells(param: Any) -> Cells:
    flags = ", ".join(f"`{flag}`" for flag in param.opts)
    value = _code(param.metavar) if param.metavar else ""
    shown = getattr(param, "shown", None)
    default = "required" if param.required else "" if shown is None else _default(shown)
    return flags, value, default, getattr(param, "words", None) or param.help


def _default(text: str) -> str:
    """A value in code; words as they are."""
    return text.replace("|", "&#124;") if " " in text else _code(text)


def _code(text: str) -> str:
    """Code in a cell of a table: within back ticks a bar would end the cell, or be printed with its
    escape.
    """
    if "|" in text:
        return f"<code>{text.replace('|', '&#124;')}</code>"
    return f"`{text}`"


def _contract(printed: Callable[[list[str]], str]) -> str:
    return (
        "## The answer of `perfmodel whatif --json`\n\n"
        "Later versions may add fields, but never rename any. `schema_version` is 2 in the JSON of "
        "every verb. In Python, `as_dict()` of an answer gives the same fields.\n\nTimes (`_s`) "
        "are seconds per pass of the whole tensor-parallel group. Bytes are per device; the throughput is "
        "that of the group. "
        "A missing value is null. `verdict` is `pays`, `likely_pays`, `too_close_to_call`, "
        "`likely_does_not_pay`, `does_not_pay`, `unknown_acceptance` or `does_not_fit`. "
        "`measured` lists published measurements of exactly this question. Several `--batch`, "
        "`--context` or `--gamma` "
        "values give a list of such answers in `rows`. This is the answer of\n"
        f"`perfmodel {DEMO} --json`:\n\n"
        f"```json\n{_short(json.loads(printed(shlex.split(f'perfmodel {DEMO} --json'))))}\n```\n"
    )


def _short(answer: dict[str, Any]) -> str:
    """JSON with a line for each field of the answer, folded where it is long; numbers to six digits."""
    rounded = json.loads(json.dumps(answer), parse_float=lambda text: float(f"{float(text):.6g}"))
    lines: list[str] = []
    for name, value in rounded.items():
        first, *more = re.split(r', (?=")', json.dumps({name: value}, ensure_ascii=False)[1:-1])
        lines.append(f"  {first}")
        for part in more:
            if len(lines[-1]) + len(part) > 116:
                lines.append(f"    {part}")
            else:
                lines[-1] += f", {part}"
    return "{\n" + ",\n".join(lines) + "\n}"
