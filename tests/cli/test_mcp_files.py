"""Which files an assistant may read, and that no refusal tells what is in one."""

import json
from pathlib import Path
from typing import Any

import pytest

from perfmodel.cli.tool import called
from tests.cli.mcp_session import session
from tests.test_front_door import ASKED

SECRET = "hunter2"
FILES = {
    "plain": f"{SECRET}:{SECRET}\n",
    "device.yaml": f"name: {SECRET}\n{SECRET}: {SECRET}\nmemory_bandwidth: {{value: {SECRET}}}\n",
    "config.json": json.dumps({"model_type": SECRET, "architectures": [SECRET], SECRET: SECRET}),
    "rows.json": json.dumps(
        {
            "schema_version": 1,
            "source": SECRET,
            "rows": [
                {
                    "target": "llama-3.1-8b",
                    "draft": SECRET,
                    "draft_kv": SECRET,
                    "context_tokens": 1000,
                    "alpha": 0.5,
                }
            ],
        }
    ),
    "mix.yaml": f"classes: {{{SECRET}: {{share: {SECRET}}}}}\n",
    "trace.csv": f"arrival_s,input_tokens,output_tokens\n{SECRET},1,{SECRET}\n",
    "trace.jsonl": json.dumps({SECRET: SECRET, "timestamp": SECRET}) + "\n",
}
"""Files with words that no refusal may repeat."""
QUESTIONS = {
    "whatif": ("model", "hardware", "calibration", "draft", "acceptance"),
    "advise": ("hardware", "acceptance"),
    "schedule": ("draft", "acceptance"),
    "traffic": ("trace", "mix", "hardware"),
}
"""Tool -> its arguments that may be files."""


def pointed_at(paths: list[str]) -> list[tuple[str, dict[str, Any]]]:
    """Calls of every tool with each of its files at each of the paths."""
    return [
        (tool, ASKED[tool] | {argument: path})
        for tool, names in QUESTIONS.items()
        for argument in names
        for path in paths
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "link.csv").symlink_to("/etc/passwd")
    return tmp_path


def test_no_file_is_read_without_a_folder(folder: Path) -> None:
    for tool, call_arguments in pointed_at([str(folder / "rows.json"), "/proc/self/environ", "/etc/passwd"]):
        result = called(tool, call_arguments, None)
        assert "answer" not in result, call_arguments
        assert "root:" not in result["text"]
        assert SECRET not in result["text"]

    def said(path: str) -> str:
        answer = called("traffic", ASKED["traffic"] | {"trace": path}, None)
        return answer["text"].partition(": ")[2]

    mine = said(str(folder / "trace.csv"))
    system = said("/proc/self/environ")
    there = said("/etc/passwd")
    absent = said("/no/such/file")
    assert "--files DIR" in mine
    assert "file of the system" in system
    assert there == absent  # nobody learns which files exist


def test_no_refusal_quotes_a_file_of_the_folder(folder: Path) -> None:
    for tool, call_arguments in pointed_at([str(folder / name) for name in (*FILES, "link.csv")]):
        result = called(tool, call_arguments, folder)
        if "answer" not in result:
            assert SECRET not in result["text"], call_arguments
            assert "root:" not in result["text"], call_arguments


@pytest.mark.parametrize("name", ["a\x00b", "a\nb", "a\x1b[31mb"])
def test_a_refusal_is_one_line_for_any_name(folder: Path, name: str) -> None:
    for tool, call_arguments in (("advise", {"acceptance": name}), (name, {})):
        result = called(tool, {"model": "llama-3.1-8b", "hardware": "h100"} | call_arguments, folder)
        assert result["text"].isprintable(), call_arguments


def test_a_file_of_the_folder_is_named_relative_to_it(folder: Path) -> None:
    from perfmodel.cli.mcp import server

    (folder / "good.csv").write_text("arrival_s,input_tokens,output_tokens\n0,900,40\n1,300,20\n")
    (answer,) = session(server(folder), ("traffic", ASKED["traffic"] | {"trace": "good.csv"})).results
    assert not answer.is_error, answer
