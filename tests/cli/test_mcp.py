"""An assistant asks the questions of the command line, over the SDK's own client."""

from typing import Any

import pytest

import perfmodel as pm
from perfmodel.answers.declaration import arguments
from tests.cli.mcp_session import session
from tests.test_front_door import ASKED


def test_tools_are_declared_questions_and_answers_are_those_of_python() -> None:
    from perfmodel.cli.mcp import server
    from perfmodel.cli.tool import TOOLS

    calls = [(name, ASKED[name]) for name in TOOLS]
    tools, answers = session(server(), *calls)
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


def test_an_assistant_reads_the_type_the_choices_and_the_default_of_an_argument() -> None:
    """A number may also be a text, as on the command line."""
    from perfmodel.cli.mcp import server

    whatif = session(server()).tools[0].input_schema["properties"]
    assert whatif["overlap"]["enum"] == ["auto", "none", "two-batch"]
    assert whatif["task"]["enum"][:2] == ["chat", "code"]
    assert "enum" not in whatif["model"]
    assert whatif["gamma"]["description"].endswith(" Default: auto.")
    assert "Default" not in whatif["batch"]["description"]
    assert whatif["batch"]["anyOf"] == [{"type": "integer"}, {"type": "string"}]


def test_an_assistant_reads_that_times_are_numbers() -> None:
    from perfmodel.cli.mcp import server

    whatif = session(server()).tools[0].output_schema
    times = whatif["$defs"]["PassTime"]["properties"]
    assert times["predicted_s"] == times["comm_s"] == {"type": "number"}
    assert times["limiter"] == {"type": "string"}


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

    (answer,) = session(server(), (name, given)).results
    assert answer.is_error
    assert says in answer.content[0].text
    assert "--" not in answer.content[0].text


def test_a_call_that_takes_too_long_is_stopped() -> None:
    from perfmodel.cli.mcp import server

    (answer,) = session(server(limit_s=0.2), ("whatif", ASKED["whatif"])).results
    assert answer.is_error
    assert answer.content[0].text.startswith("whatif: took more than 0.2 s")
