"""The docs are true: generated pages are fresh, and every example of README.md and docs/ prints what it
shows.
"""

import doctest
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from perfmodel import cli
from perfmodel.specs.engines.request_costs import request_constants
from tests.scripts import ROOT, of_docs

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
CALL = "(?:torchrun {0} -m )?perfmodel( {0}|)"
COMMAND = re.compile(f"`{CALL.format('[^`]*')}`|^    {CALL.format('.*')}$", re.MULTILINE)
GENERATE = of_docs("generate")


def blocks(page: Path, language: str) -> list[str]:
    return [text for kind, text in FENCE.findall(page.read_text(encoding="utf-8")) if kind == language]


SLOW_PAGES = {"docs/engine.md", "docs/racks.md"}
"""Their examples take seconds: a server's points are fitted, racks are searched."""


def pages() -> Iterator[Any]:
    for name in GENERATE.names():
        if name != "docs/contributing.md":  # see test_contributing
            yield pytest.param(name, marks=[pytest.mark.slow] if name in SLOW_PAGES else [])


@pytest.mark.parametrize("name", [*pages()])
def test_a_page_is_fresh_and_its_examples_print_what_they_show(name: str) -> None:
    shown = (ROOT / name).read_text(encoding="utf-8")
    assert GENERATE.page(name) == shown, f"{name}: run `make docs` and commit"


def test_every_page_with_a_command_is_run() -> None:
    for page in PAGES:
        shown = blocks(page, "console") + blocks(page, "sh")
        assert str(page.relative_to(ROOT)) in GENERATE.names() or not shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```console\n$ perfmodel whatif\n```\n", "exit status 2"),
        ("```sh\nperfmodel gpus show nothing\n```\n", "exit status 2"),
        (
            "```sh\ncat > a.yaml <<'END'\nbandwith: 3\nEND\nperfmodel gpus check a.yaml\n```\n",
            "a.yaml: must have the keys name, title",
        ),
        ("```sh\nrm -rf nothing\n```\n", "only perfmodel is run here"),
        ("```console\nperfmodel kv list\n```\n", "one command, after"),
        ("```console\n$ perfmodel kv list\n$ perfmodel kv list\n```\n", "one command, after"),
    ],
)
def test_an_example_that_fails_is_refused(text: str, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        GENERATE.filled(text)


def test_files_commands_and_their_order() -> None:
    """A titled block is a file, commands run in order in one folder, and a timed output is left alone."""
    page = (
        '```yaml title="a/mine.yaml"\nname: mine\nbandwith: 3\n```\n'
        "```sh\nperfmodel sweep --model llama-3.2-1b --hardware a100 --batch 1 --context 1k --gamma 0 "
        "-o a/x.csv\n```\n"
        "```console\n$ perfmodel kv check full\nanything\n```\n"
        "<!-- timed -->\n```console\n$ perfmodel kv check full\nrecorded\n```\n"
    )
    assert GENERATE.filled(page) == page.replace("anything", "full: ok")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert GENERATE.filled(text.replace("Speculate: eagle3", "Speculate: ngram")) == text
    assert GENERATE.filled(page, timed=True) == page.replace("anything", "full: ok").replace(
        "recorded", "full: ok"
    )


@pytest.mark.parametrize(
    "page", [p for p in PAGES if "\n```python\n" in p.read_text(encoding="utf-8")], ids=lambda p: p.name
)
def test_python_examples(page: Path) -> None:
    result = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert result.attempted > 0
    assert result.failed == 0


def test_commands_in_the_text_exist_with_their_flags() -> None:
    """They are not run: they need a GPU, take long, or stand for many."""
    seen = 0
    for page in PAGES:
        text = "" if page.stem == "cli" else FENCE.sub("", page.read_text(encoding="utf-8"))
        for inline, indented in COMMAND.findall(text):
            words = [word for word in (inline or indented).replace("\\", " ").split() if word != "..."]
            verbs = [word for word in words if not word.startswith("-")][:2]
            if not verbs:
                assert words in ([], ["--help"]), f"{page.name}: {words}"
                continue
            assert verbs[0] in cli.COMMANDS, f"{page.name}: {words}"
            command = cli.command(verbs[0])
            if (group := getattr(command, "commands", None)) and len(verbs) > 1 and not verbs[1].isupper():
                assert verbs[1] in group, f"{page.name}: {words}"
                command = group[verbs[1]]
            flags = {flag for param in command.params for flag in param.opts} | {"--help", "--help-all"}
            given = {word.partition("=")[0] for word in words if word.startswith("--")}
            assert given <= flags, f"{page.name}: {words}: {given - flags}"
            seen += 1
    assert seen > 30


MADE = {"explorer.html", "explorer_models.html"}
"""What docs/hooks.py adds to the site."""


def test_links_lead_somewhere_and_to_no_folder_of_one_machine() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for target in LINK.findall(FENCE.sub("", text)):
            assert target in MADE or (page.parent / target).exists(), f"{page.name}: {target}"
        assert not re.search(r"(?<![\w.])/(?:tmp|home|root|work)/", text), page.name


def test_the_errors_of_pass_times_are_those_of_the_fit() -> None:
    page = " ".join((ROOT / "docs" / "traffic.md").read_text(encoding="utf-8").split())
    vllm = 100 * request_constants().error("vllm").log_rms
    trtllm = 100 * request_constants().error("trtllm").log_rms
    assert f"the error of TPOT is {vllm:.0f} % on vLLM and {trtllm:.0f} % on TensorRT-LLM" in page


def test_names_that_the_pages_document_exist() -> None:
    """The site is built by a slow test alone."""
    named = [
        name for page in PAGES for name in re.findall(r"^::: (\S+)", page.read_text("utf-8"), re.MULTILINE)
    ]
    assert len(named) > 20
    for module, _, name in (each.rpartition(".") for each in named):
        assert hasattr(import_module(module), name), f"{module}.{name}"


def test_the_page_says_what_a_what_if_takes_today() -> None:
    """Passes and files exactly; calls to a twentieth, since Python's versions differ in what is a call."""
    today = json.loads(subprocess.check_output([sys.executable, "benchmarks/counts.py"], cwd=ROOT))
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8").splitlines()
    cells = {
        line.split(" | ")[0].strip("| "): line.strip("| ").split(" | ")[1:] for line in page if " | " in line
    }
    for name, now in today.items():
        calls, files, passes = (int(cell) for cell in cells[name])
        assert (files, passes) == (now["files"], now["forward passes"]), (
            f"{name}: docs/benchmarks.md: run `make bench` and commit"
        )
        assert calls == pytest.approx(now["calls"], rel=0.05), f"{name}: docs/benchmarks.md: run `make bench`"
    for name, what, most in (
        ("first", "calls", 30500),  # too close to call: three switches are priced too
        ("warm", "forward passes", 0),
        ("warm", "calls", 2650),  # a pass on several devices also gathers logits
        ("warm", "files", 72),  # each warning of a point has a file
        ("traffic", "forward passes", 6),
    ):
        assert today[name][what] <= most
