"""Texts of operators who do not write English."""

import pytest

from perfmodel.validate.engine.formats import read_pasted
from perfmodel.validate.engine.text import plain
from perfmodel.validate.engine.timing import GivenFacts
from tests.refusals import refused

TABLE = """在 H100 上用 SGLang 测试，输入 1024，输出 256：

| 并发数 | 吞吐量（tokens/s） | 平均接受长度 |
|---|---|---|
| 1 | 310 | 2.9 |
| 8 | 1900 | 2.8 |
"""


@pytest.mark.parametrize(
    "text",
    [
        "同样的提示词，不开 MTP 是 33 tok/s，开启 MTP（n=3）后 52 tok/s，接受率 72%。",
        "没有开启 MTP：33 token/秒；启用 MTP（n=3）：52 token/秒，接受率 72％",
        "MTPなし：33 tok/s\nMTPあり（n=3）：52 tok/s、採択率 0.72",
        "Ohne MTP bekomme ich 33,0 tok/s, mit MTP (n-max 3) sind es 52,0 tok/s, Akzeptanz 72 %.",
    ],
    ids=["chinese", "chinese units", "japanese", "german"],
)
def test_two_speeds_in_another_language(text: str) -> None:
    steps = read_pasted("-", plain(text), GivenFacts(input=500))
    speeds = {timing.gamma: (timing.tokens_per_iteration, timing.seconds) for timing in steps}
    assert speeds == {0: (1.0, 1 / 33), 3: (pytest.approx(3.16), pytest.approx(3.16 / 52))}


def test_a_table_in_chinese_needs_only_the_draft_length() -> None:
    refused("-: gamma: must be stated", read_pasted, "-", plain(TABLE), GivenFacts())
    steps = read_pasted("-", plain(TABLE), GivenFacts(gamma=3))
    assert [(t.batch, t.context, t.tokens_per_iteration, t.seconds) for t in steps] == [
        (1, 1152, 2.9, pytest.approx(2.9 / 310)),
        (8, 1152, 2.8, pytest.approx(2.8 * 8 / 1900)),
    ]


def test_words_of_other_languages_in_english_text_stay() -> None:
    assert plain("MIT licence, mit 3 tok/s") == "MIT licence, mit 3 tok/s"
