"""Write what the code already knows into the docs: tables of devices, models, methods, calibrations and
flags, and the output under every command of README.md and docs/*.md. ``python docs/generate.py``, or ``make
docs``.

The commands of a page run in order in a folder of their own, which holds nothing but the page's files:

- a fenced block with a title is a file of that name;
- a ``console`` block is one command after ``$`` and what it prints;
- an ``sh`` block is commands whose output the page does not show; ``cat > NAME <<'END'`` writes a file;
- ``<!-- made: NAME -->`` ... ``<!-- end -->`` is what `lists.MADE` or `scoreboard.MADE` writes;
- ``<!-- timed -->`` before a block: a clock decides what it prints, which therefore stays as it was recorded;
- ``<!-- cut: START ... END -->`` before a block: an ellipsis stands for the lines from the one that begins
  with START to the one before END.

A page with a file inside one of the `TREE` folders runs in a copy of the source tree. A test compares `page`
with the files, so that a page that has gone stale fails.
"""

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from unittest import mock

import lists  # all are in this folder
import reference
import scoreboard
import threads

import perfmodel
from perfmodel import cli
from perfmodel.answers.schema import ANSWERS, schema

ROOT = Path(__file__).parents[1]
TREE = ("perfmodel", "hardware", "validate", "results", "tests")
FENCE = re.compile(
    r"(?P<mark><!-- timed -->\n)?(?P<cut><!-- cut: (?P<start>.+) \.\.\. (?P<stop>.+) -->\n)?"
    r'^```(?P<language>\w*)(?: title="(?P<file>[^"\n]+)")?\n(?P<body>.*?)^```$',
    re.DOTALL | re.MULTILINE,
)
HERE = re.compile(r"^cat > (?P<file>\S+) <<'END'\n(?P<body>.*?)^END\n", re.DOTALL | re.MULTILINE)
COLUMNS = 84
"""What a block of code shows on the site, and on a page of a repository."""
MADE = re.compile(r"(<!-- made: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
TABLES = lists.MADE | scoreboard.MADE | threads.MADE
COMMAND = re.compile(r"\$ (?P<line>(?:[^\n]*\\\n)*[^\n]*)\n")


def names() -> list[str]:
    """Every page that this program writes, wholly or in part."""
    return [*(f"docs/{name}" for name in GENERATED), *by_hand()]


def by_hand() -> list[str]:
    """Pages written by hand with commands in them."""
    found = []
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        text = path.read_text(encoding="utf-8")
        shows = MADE.search(text) or any(b["language"] in ("console", "sh") for b in FENCE.finditer(text))
        if path.name not in GENERATED and shows:
            found.append(path.relative_to(ROOT).as_posix())
    return found


def page(name: str) -> str:
    """What one page must hold."""
    made = GENERATED.get(name.removeprefix("docs/"))
    return made() if made else filled((ROOT / name).read_text(encoding="utf-8"))


def filled(text: str, timed: bool = False) -> str:
    """A page with the output under each command; with `timed`, under the commands that a clock decides
    too.
    """
    text = MADE.sub(lambda part: f"{part[1]}{TABLES[part[2]]()}{part[3]}", text)
    blocks = list(FENCE.finditer(text))
    in_tree = any(b["file"] and Path(b["file"]).parts[0] in TREE for b in blocks)
    wide = mock.patch.dict(os.environ, COLUMNS=str(COLUMNS))
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), wide:
        if in_tree:
            copy_tree(Path(folder))
        return FENCE.sub(lambda block: _replaced(block, in_tree, timed), text)


def copy_tree(folder: Path) -> None:
    """The packages, their tests and the settings of both, without what was made from them."""
    for name in TREE:
        shutil.copytree(
            ROOT / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "local-*")
        )
    shutil.copy(ROOT / "pyproject.toml", folder)


def _replaced(block: re.Match[str], in_tree: bool, timed: bool) -> str:
    for file in [block] if block["file"] else HERE.finditer(block["body"]):
        path = Path(file["file"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file["body"], encoding="utf-8")
    if block["file"] or (block["mark"] and not timed):
        pass
    elif block["language"] == "sh":
        for line in HERE.sub("", block["body"]).replace("\\\n", " ").splitlines():
            if words := shlex.split(line, comments=True):
                output_of(words, in_tree)
    elif block["language"] == "console":
        command = COMMAND.match(block["body"])
        if command is None or block["body"].count("\n$ "):
            raise RuntimeError(f"a console block must hold one command, after '$ ':\n{block[0]}")
        words = shlex.split(command["line"].replace("\\\n", " "))
        printed = output_of(words, in_tree)
        if block["cut"]:
            printed = _cut(printed, block["start"], block["stop"])
        return f"{block['mark'] or ''}{block['cut'] or ''}```console\n{command[0]}{printed}```"
    return block[0]


def _cut(printed: str, start: str, stop: str) -> str:
    """The lines with an ellipsis for those from `start` to the one before `stop`."""
    before, _, after = printed.partition(f"\n{start}")
    _, found, last = after.partition(f"\n{stop}")
    if not found:
        raise RuntimeError(f"no lines from {start!r} to {stop!r} to cut:\n{printed}")
    return f"{before}\n...{found}{last}"


def output_of(words: list[str], in_tree: bool = False) -> str:
    """What one command prints, without trailing blanks. Raises RuntimeError where it fails, or is not
    `perfmodel`.

    in_tree: run what lies in the current folder, as a process, where ``python -m pytest`` may be run too.
    """
    out = io.StringIO()
    err = io.StringIO()
    status = 0
    if in_tree and words[0] in ("perfmodel", "python"):
        arguments = ["-m", *words] if words[0] == "perfmodel" else words[1:]
        done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
        out.write(done.stdout)
        err.write(done.stderr)
        status = done.returncode
    elif words[0] == "perfmodel":
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = cli.run(words[1:])
    else:
        raise RuntimeError(f"{shlex.join(words)}: only perfmodel is run here")
    if status:
        said = (out.getvalue() + err.getvalue())[-2000:]
        raise RuntimeError(f"{shlex.join(words)}: exit status {status}\n{said}")
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    return "\n".join(lines).strip("\n") + "\n"


def schema_of(verb: str) -> str:
    """The JSON Schema of a verb's answer, as a file."""
    return json.dumps(schema(getattr(perfmodel, verb)), indent=1) + "\n"


GENERATED = {f"{name}.md": made for name, made in lists.PAGES.items()}
GENERATED |= {"cli.md": lambda: reference.page(output_of)}
GENERATED |= {f"schemas/{verb}.json": partial(schema_of, verb) for verb in ANSWERS}
"""Page -> what writes all of it."""


def main() -> None:
    """Rewrite every page that has changed, and draw the pictures."""
    import picture  # in this folder

    for name in names():
        path = ROOT / name
        text = page(name)
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print("wrote", name, file=sys.stderr)
    picture.main()


if __name__ == "__main__":
    main()
