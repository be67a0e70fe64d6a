"""An assistant asks the questions of the command line, over the SDK's own client."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

import perfmodel as pm
from perfmodel.answers.declaration import arguments
from perfmodel.cli.tool import called
from tests.test_front_door import ASKED

mcp = pytest.importorskip("mcp")


def session(over: Any, *calls: tuple[str, dict[str, Any]], mode: Any = "auto") -> tuple[Any, ...]:
    """The tools of a server, then the result of each call: the client checks results by their schema."""

    async def ask() -> tuple[Any, ...]:
        async with mcp.Client(over, mode=mode) as client:
            tools = (await client.list_tools()).tools
            return tools, *[await client.call_tool(name, given) for name, given in calls]

    return anyio.run(ask)


def test_tools_are_declared_questions_and_answers_are_those_of_python() -> None:
    from perfmodel.cli.mcp import server
    from perfmodel.cli.tool import TOOLS

    tools, *answers = session(server(), *((name, ASKED[name]) for name in TOOLS))
    assert [tool.name for tool in tools] == [*TOOLS] == ["whatif", "advise", "traffic", "schedule"]
    for tool, answer in zip(tools, answers, strict=True):
        verb = getattr(pm, tool.name)
        declared = arguments(verb.question)
        assert [*tool.input_schema["properties"]] == [*declared]
        for name, shown in tool.input_schema["properties"].items():
            assert shown["description"].startswith(declared[name].help)
        by_python = verb(**ASKED[tool.name])
        assert not answer.is_error
        assert answer.content[0].text == by_python.headline()
        assert answer.structured_content == pm.answers.answer.plain(by_python.as_dict())
    assert tools[0].input_schema["required"] == ["model", "hardware", "batch", "context"]


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        (
            "whatif",
            {"model": "llama-3.1-8b", "hardware": "h10", "batch": 1, "context": 1},
            "did you mean h100",
        ),
        ("whatif", {"model": "llama-3.1-8b", "hardwear": "h100"}, "no argument named 'hardwear'"),
        ("schedule", {"model": "llama-3.1-8b", "hardware": "h100"}, "context: must be given"),
        ("plot", {}, "tool: must be one of whatif, advise, traffic, schedule, given plot"),
    ],
)
def test_a_mistake_is_one_sentence_that_the_assistant_reads(name: str, given: Any, says: str) -> None:
    from perfmodel.cli.mcp import server

    _, answer = session(server(), (name, given))
    assert answer.is_error
    assert says in answer.content[0].text
    assert "--" not in answer.content[0].text


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
    _, answer = session(server(folder), ("traffic", ASKED["traffic"] | {"trace": "good.csv"}))
    assert not answer.is_error, answer


def test_a_call_that_takes_too_long_is_stopped() -> None:
    from perfmodel.cli.mcp import server

    _, answer = session(server(limit_s=0.2), ("whatif", ASKED["whatif"]))
    assert answer.is_error
    assert answer.content[0].text.startswith("whatif: took more than 0.2 s")


def test_malformed_json_has_an_answer_and_the_first_interrupt_ends_an_idle_server() -> None:
    command = [sys.executable, "-m", "perfmodel", "mcp"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        print("{not json", file=process.stdin, flush=True)
        answer = json.loads(process.stdout.readline())
        assert answer["id"] is None
        assert answer["error"]["code"] == -32700
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == -signal.SIGINT


START: dict[str, Any] = {
    "method": "initialize",
    "id": "start",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "a test", "version": "1"},
    },
}
PATIENCE_S = 60.0
"""A server that takes longer to begin or to stop its calls does neither."""
SLOW = ASKED["traffic"] | {"request_rate": "0.1..40+0.1", "replay": True}


def waited_for(calls: Callable[[], int], count: int) -> int:
    """The number of running calls, once it is `count`."""
    deadline = time.monotonic() + PATIENCE_S
    while calls() != count:
        assert time.monotonic() < deadline, f"{calls()} calls run, not {count}"
        time.sleep(0.05)
    return count


def test_calls_wait_for_their_turn_and_stop_when_they_are_cancelled() -> None:
    from perfmodel.cli.mcp import AT_ONCE

    command = [sys.executable, "-m", "perfmodel", "mcp"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def send(message: dict[str, Any]) -> None:
            print(json.dumps({"jsonrpc": "2.0"} | message), file=process.stdin, flush=True)

        def calls() -> int:
            return len(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())

        send(START)
        assert json.loads(process.stdout.readline())["id"] == "start"
        send({"method": "notifications/initialized"})
        for number in range(AT_ONCE + 2):
            call = {"name": "traffic", "arguments": SLOW}
            send({"method": "tools/call", "id": number, "params": call})
        most = waited_for(calls, AT_ONCE)
        for number in range(AT_ONCE + 2):
            most = max(most, calls())
            send({"method": "notifications/cancelled", "params": {"requestId": number}})
        assert most == AT_ONCE
        waited_for(calls, 0)
        process.stdin.close()
        assert process.wait(timeout=60) == 0
