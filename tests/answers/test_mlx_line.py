"""The line of ``mlx_lm.server``: its draft model, the number of drafted tokens, and what the notes say."""

from tests.commands import run

QUESTION = "schedule -m llama-3.3-70b --hardware m3-ultra-512gb -c 4096 --engine mlx"
DRAFT = ("--draft", "llama-3.2-1b")
LINE = "mlx_lm.server --model mlx-community/Llama-3.3-70B-Instruct-4bit"
NAMED = "the name follows the pattern of mlx-community: check that the repository exists"
CHECKED = "the parsers of MLX 0.32.2 (mlx-lm) accept lines of this form"


def said(capsys, *words: str) -> list[str]:
    """The command line and the notes below it."""
    printed = run(capsys, *QUESTION.split(), *words).splitlines()
    (start,) = (place for place, line in enumerate(printed) if line.startswith("mlx_lm.server --model"))
    end = next(place for place, line in enumerate(printed) if line.startswith("the draft runs in"))
    return [line for line in printed[start:end] if "leave speculation off" not in line]


def test_the_number_of_drafted_tokens_is_the_best_one_and_not_the_default(capsys) -> None:
    line, *notes = said(capsys, *DRAFT, "--rate", "0.8/0.1")
    draft = "--draft-model mlx-community/Llama-3.2-1B-Instruct-4bit --num-draft-tokens 1"
    assert line == f"{LINE} {draft}"
    says = "mlx_lm.server drafts for one request at a time, by default 3 tokens"
    assert notes == [says, NAMED, CHECKED]


def test_the_draft_has_its_own_format_and_a_cache_that_mlx_lacks_is_noted(capsys) -> None:
    formats = ("--weights", "8bit", "--draft-weights", "4bit", "--kv-dtype", "fp8")
    line, *notes = said(capsys, *DRAFT, "--rate", "0.9", *formats)
    assert "--model mlx-community/Llama-3.3-70B-Instruct-8bit " in line
    assert "--draft-model mlx-community/Llama-3.2-1B-Instruct-4bit " in line
    assert "MLX has no fp8 KV cache: its command line has bf16" in notes


def test_a_named_folder_is_the_draft_as_it_is(capsys) -> None:
    line, *_ = said(capsys, *DRAFT, "--rate", "0.8/0.1", "--draft-path", "/m/draft")
    assert line == f"{LINE} --draft-model /m/draft --num-draft-tokens 1"


def test_a_draft_that_does_not_gain_is_left_out_and_the_note_says_so(capsys) -> None:
    says = "no draft length gains: mlx_lm.server is started without a draft model"
    assert said(capsys, *DRAFT, "--rate", "0.05") == [LINE, says, NAMED, CHECKED]


def test_a_draft_of_another_kind_is_left_out_and_servers_that_have_it_are_named(capsys) -> None:
    says = "mlx_lm.server has no eagle3 draft; mlx-vlm and mlx-dspark have one, with other command lines"
    assert said(capsys, "--draft", "eagle3", "--rate", "0.9") == [LINE, says, NAMED, CHECKED]


def test_a_draft_that_gains_at_some_batch_sizes_alone_is_left_out_for_another_reason(capsys) -> None:
    """The printed table has draft lengths, so that none gains would contradict it."""
    small = ("-m", "llama-3.1-8b", "--hardware", "m5-max")
    _, says, *_ = said(capsys, *small, *DRAFT, "--rate", "0.75")
    assert says.endswith("the best single one is 0: it is started without a draft model")
