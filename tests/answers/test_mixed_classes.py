"""Classes of requests on one server."""

from pathlib import Path

import pytest

from perfmodel.answers.load.mixed_classes import mix_values
from perfmodel.answers.load.traffic import traffic
from tests.refusals import refused

CHAT = "{share: 3, input_len: 500, output_len: 300, alpha: 0.5, slo: {tpot: 12}}"
CODE = "{share: 1, input_len: 4000, output_len: 700, alpha: 0.8, slo: {ttft: 1}}"
OPEN = "{share: 1, input_len: 500, output_len: 50}"
ASKED = {"model": "qwen3-8b", "hardware": "h100", "draft": "eagle3", "gamma": 3}


def mix(folder: Path, **classes: str) -> str:
    """A file of these classes."""
    where = folder / "mix.yaml"
    lines = ["classes:", *(f"  {name}: {text}" for name, text in classes.items())]
    where.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(where)


def test_each_class_has_its_lengths_acceptance_and_slo(tmp_path: Path) -> None:
    """Of four requests three are chats: 1,375 prompt and 400 output tokens on average, and acceptance by
    output tokens (0.5 x 900 + 0.8 x 700) / 1,600.
    """
    answer = traffic(mix=mix(tmp_path, chat=CHAT, code=CODE), request_rate=1, **ASKED)
    stated = traffic(input_len=1375, output_len=400, request_rate=1, alpha=1010 / 1600, **ASKED)
    assert answer.rows[-1].tokens_per_iteration == pytest.approx(stated.rows[-1].tokens_per_iteration)
    assert answer.classes is not None
    chat, code = (row for row in answer.classes if row.gamma == 3)
    assert [chat.name, code.name] == ["chat", "code"]
    assert chat.requests + code.requests == 2000
    assert chat.requests == pytest.approx(1500, abs=60)
    # an iteration gains 1.875 tokens at 0.5 and 2.952 at 0.8
    assert chat.tpot_s.mean / code.tpot_s.mean == pytest.approx(2.952 / 1.875, rel=0.05)
    assert chat.slo_share > 0.99
    assert code.slo_share == 0
    assert chat.goodput == pytest.approx(0.75, rel=0.05)
    assert chat.output_tokens_per_s / code.output_tokens_per_s == pytest.approx(900 / 700, rel=0.1)


def test_lengths_of_a_mix_vary_within_and_between_its_classes(tmp_path: Path) -> None:
    """Of four requests three are short: 625 prompt tokens on average. The variance is 3/4 (125² + 50²) + 1/4
    (375² + 100²). Outputs vary between the classes alone.
    """
    short = "{share: 3, input_len: 500, input_std: 50, output_len: 100}"
    long = "{share: 1, input_len: 1000, input_std: 100, output_len: 200}"
    values = mix_values(traffic.question(mix=mix(tmp_path, short=short, long=long), request_rate=1, **ASKED))
    assert (values["input_len"], values["output_len"]) == (625, 125)
    assert values["input_std"] == pytest.approx(51250**0.5)
    assert values["output_std"] == pytest.approx(1875**0.5)


def test_one_class_is_the_server_alone(tmp_path: Path) -> None:
    path = mix(tmp_path, only="{share: 1, input_len: 500, output_len: 300, alpha: 0.5}")
    question = {"request_rate": 1, "slo": "tpot:12", "num_prompts": 500}
    answer = traffic(mix=path, replay=True, **ASKED, **question)
    assert answer.classes is not None
    assert answer.replay is not None
    for row, whole in zip(answer.classes, answer.replay, strict=True):
        assert row.tpot_s.mean == pytest.approx(whole.tpot_s.mean, rel=0.02)
        assert row.slo_share == pytest.approx(whole.slo_share, abs=0.03)


def test_a_class_without_an_slo_has_that_of_the_question(tmp_path: Path) -> None:
    """No server decodes a token in 0.1 ms, and every one does within 10 s."""
    path = mix(tmp_path, asked="{share: 1, input_len: 500, output_len: 50, slo: {tpot: 10000}}", open=OPEN)
    answer = traffic(mix=path, request_rate=1, num_prompts=100, slo="tpot:0.1", **(ASKED | {"gamma": 0}))
    assert answer.classes is not None
    assert [(row.name, row.slo_share) for row in answer.classes] == [("asked", 1), ("open", 0)]
    assert answer.classes[1].goodput == 0


def test_outputs_of_one_token_have_no_time_per_token(tmp_path: Path) -> None:
    """Outputs of 2 tokens on average are of 1 to 4; those of 1 would make the mean a third shorter."""
    path = mix(tmp_path, only="{share: 1, input_len: 100, output_len: 2, output_std: 1.1}")
    answer = traffic(mix=path, request_rate=1, num_prompts=200, **(ASKED | {"gamma": 0}))
    assert answer.classes is not None
    assert answer.classes[0].tpot_s.mean == pytest.approx(answer.rows[0].tpot_s.mean, rel=0.05)


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        ("{share: 0, input_len: 5, output_len: 5}", {}, "classes.a.share"),
        ("{share: 1, input_len: 5, output_len: 1}", {}, "classes.a.output_len"),
        ("{share: 1, input_len: 5, output_len: 5, alpha: 1}", {}, "classes.a.alpha"),
        ("{share: 1, input_len: 5, output_len: 5, alpha: -0.1}", {}, "classes.a.alpha"),
        ("{share: 1, input_len: 5, output_len: 5, output_std: -1}", {}, "classes.a.output_std"),
        ("{share: 1, input_len: 5, output_len: 5, slo: {tpot: 0}}", {}, "classes.a.slo.tpot"),
        ("{share: 1, input_len: 5, output_len: 5, slo: {tpots: 3}}", {}, "tpots"),
        ("{share: 1, input_len: 5, output_len: 5}", {"rollout": 3, "input_len": 5, "output_len": 5}, "drawn"),
    ],
)
def test_what_is_no_mix_is_refused(text: str, more: dict[str, int], message: str, tmp_path: Path) -> None:
    load = {} if "rollout" in more else {"request_rate": 1}
    refused(message, traffic, mix=mix(tmp_path, a=text), **load, **ASKED, **more)


@pytest.mark.parametrize(
    ("given", "of_the_class"),
    [({"input_len": 100}, {"output_len": 300}), ({"output_len": 100}, {"input_len": 500})],
)
def test_one_length_given_leaves_the_other_to_the_classes(given, of_the_class, tmp_path: Path) -> None:
    path = mix(tmp_path, only="{share: 1, input_len: 500, output_len: 300, alpha: 0.5}")
    some = traffic(mix=path, request_rate=1, **ASKED, **given)
    both = traffic(request_rate=1, alpha=0.5, **ASKED, **given, **of_the_class)
    assert [row.saturation_rate for row in some.rows] == [row.saturation_rate for row in both.rows]


@pytest.mark.parametrize(
    ("share", "input_len", "message"),
    [
        (0.01, 50_000, "classes.rare: must be input and output together at most the model's 40960 positions"),
        (1e-6, 5_000, "num_prompts: must be enough for a request of class rare"),
    ],
)
def test_a_rare_class_is_served_or_refused(
    share: float, input_len: int, message: str, tmp_path: Path
) -> None:
    """A mean of 396.4 tokens is 396, whose deviation is cut at 396 / sqrt(3)."""
    text = "{{share: {}, input_len: {}, output_len: 100, alpha: 0.5}}"
    wide = mix(tmp_path, usual=text.format(1, 100), rare=text.format(0.01, 30_040))
    assert traffic(mix=wide, request_rate=1, **ASKED).classes
    narrow = mix(tmp_path, usual=text.format(1, 100), rare=text.format(share, input_len))
    refused(message, traffic, mix=narrow, request_rate=1, **ASKED)


def test_an_output_of_two_tokens_has_a_time_per_token(tmp_path: Path) -> None:
    path = mix(tmp_path, only="{share: 1, input_len: 500, output_len: 2, alpha: 0.5}")
    answer = traffic(mix=path, request_rate=1, num_prompts=20, **ASKED)
    assert answer.classes[0].tpot_s.mean > 0
