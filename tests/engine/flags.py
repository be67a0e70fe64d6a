"""The flags that the engines' own parsers know, kept as data: ``flags.json``.

``python -m tests.engine.flags ENGINE_FOLDER LLAMA_SERVER`` asks the parsers of vLLM and SGLang, and the help
of llama-server, and writes the file.
"""

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from perfmodel.answers.advice.servers import servers

RECORD = Path(__file__).with_name("flags.json")
ALONE = "flag"
NUMBERS = {"int": int, "float": float}
MARGIN = 40
"""Column of llama-server's help at which its sentences begin."""
ALLOWED = re.compile(r"allowed values: (.+)")
CHOICES = re.compile(r"[\[{]?([a-z0-9-]+(?:[,|][a-z0-9-]+)+)[\]}]?")
"""What may follow a flag, in llama-server's help: ``{none,layer}``, ``[on|off]``, ``none,draft-mtp``."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The flags of one engine. version: the release whose parser was asked. flags: spelling -> ``flag`` if it
    stands alone, a list of its choices, or the type of its value.
    """

    version: str
    flags: dict[str, Any]

    def kind(self, flag: str) -> Any:
        """What may follow a flag, which argparse also knows by an unambiguous beginning; None if unknown."""
        if flag in self.flags:
            return self.flags[flag]
        longer = [name for name in self.flags if flag.startswith("--") and name.startswith(flag)]
        return self.flags[longer[0]] if len(longer) == 1 else None

    def values(self, words: list[str]) -> dict[str, str | None]:
        """Flag -> its value, None for one that stands alone. Raises ValueError for what is refused."""
        values: dict[str, str | None] = {}
        rest = list(words)
        while rest:
            flag = rest.pop(0)
            kind = self.kind(flag)
            if kind is None:
                raise ValueError(f"no flag {flag}")
            if flag in values:
                raise ValueError(f"{flag} stands twice")
            values[flag] = None if kind == ALONE else _value(flag, kind, rest)
        return values


def _value(flag: str, kind: Any, rest: list[str]) -> str:
    """The word after a flag, if it is one that may follow."""
    if not rest:
        raise ValueError(f"{flag} has no value")
    value = rest.pop(0)
    if isinstance(kind, list) and value not in kind:
        raise ValueError(f"{flag} {value} is not of {', '.join(kind)}")
    read = NUMBERS.get(str(kind), str)
    read(value)
    return value


@cache
def vocabularies() -> dict[str, Vocabulary]:
    """Word of an engine -> its flags."""
    data = json.loads(RECORD.read_text(encoding="utf-8"))
    return {word: Vocabulary(**each) for word, each in data.items()}


def of_help(text: str) -> dict[str, Any]:
    """The flags in the help of llama-server."""
    flags: dict[str, Any] = {}
    spellings: list[str] = []
    for line in text.splitlines():
        allowed = ALLOWED.search(line)
        if line.startswith("-") and "---" not in line:
            spellings, kind = _spellings(line if line[MARGIN - 1 : MARGIN].strip() else line[:MARGIN])
            flags |= dict.fromkeys(spellings, kind)
        elif allowed is not None:
            flags |= dict.fromkeys(spellings, re.split(r",\s*", allowed[1].strip()))
    return dict(sorted(flags.items()))


def _spellings(head: str) -> tuple[list[str], Any]:
    """The spellings of a flag and what may follow it, from ``-c,    --ctx-size N``."""
    names = re.split(r",\s+(?=-)", head.strip())
    value = names[-1].partition(" ")[2].strip()
    spellings = [name.partition(" ")[0] for name in names]
    if not value:
        return spellings, ALONE
    choices = CHOICES.fullmatch(value)
    if choices is not None:
        return spellings, re.split(r"[,|]", choices[1])
    return spellings, "int" if value == "N" and "-ngl" not in spellings else "text"


def main(engine: Path, llama_server: Path) -> None:
    """Ask the engines and write the record."""
    script = Path(__file__).with_name("flags_of.py")
    command = [engine / "bin" / "python", script, engine]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    engine_flags = json.loads(done.stdout.splitlines()[-1])
    shown = subprocess.run([llama_server, "--help"], capture_output=True, text=True, check=True)
    version = subprocess.run([llama_server, "--version"], capture_output=True, text=True, check=True)
    data = {
        word: {"version": servers()[word].checked, "flags": flags} for word, flags in engine_flags.items()
    }
    release = (version.stdout + version.stderr).strip().splitlines()[0]
    data["llamacpp"] = {"version": release, "flags": of_help(shown.stdout)}
    RECORD.write_text(_text(data), encoding="utf-8")


def _text(data: dict[str, Any]) -> str:
    """JSON with a line for each flag."""
    engines = []
    for word, each in data.items():
        rows = [f"   {json.dumps(flag)}: {json.dumps(kind)}" for flag, kind in each["flags"].items()]
        flags = ",\n".join(rows)
        version = json.dumps(each["version"])
        engines.append(f' "{word}": {{\n  "version": {version},\n  "flags": {{\n{flags}\n  }}\n }}')
    return "{\n" + ",\n".join(engines) + "\n}\n"


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), Path(sys.argv[2]).absolute())
