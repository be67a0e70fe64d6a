"""The block that a benchmark client prints at its end."""

from pathlib import Path

from perfmodel.validate.engine.formats import read
from perfmodel.validate.engine.pastes.serving_block import BLOCK_TITLE, ServingBlock
from perfmodel.validate.engine.timing import GivenFacts
from tests.refusals import refused
from tests.validate.engine.pasting import sample

FILES = Path(__file__).parent / "files"


def test_two_printed_blocks_are_two_runs_and_a_cut_one_is_refused(tmp_path) -> None:
    text = (FILES / "printed.txt").read_text()
    path = tmp_path / "log.txt"
    other = text.replace("Maximum request concurrency:             8", "Max request concurrency: 4")
    path.write_text(text + other.replace("21.50", "43.00"))
    assert [t.batch for t in read(path, GivenFacts())] == [8, 4]
    path.write_text(text[: text.index("Median TPOT")])
    refused(r"log\.txt: median_tpot_ms: must be a number", read, path, GivenFacts())


def test_accepted_tokens_of_a_printed_block_need_a_draft_length() -> None:
    """Stated, or tokens over drafts."""
    printed = {
        "Successful requests": 2,
        "Max request concurrency": 2,
        "Benchmark duration (s)": 3,
        "Median TPOT (ms)": 20,
        "Total input tokens": 20,
        "Total generated tokens": 20,
        "Accept length": 2.5,
    }

    def step(gamma: int | None = None, **more: float) -> tuple[float, ...]:
        lines = [f"\n{name}:  {value}" for name, value in (printed | more).items()]
        text = BLOCK_TITLE + "".join(lines)
        (t,) = ServingBlock().read("x", text, GivenFacts(gamma=gamma))
        return t.gamma, t.tokens_per_iteration, t.seconds

    refused("x: gamma: must be stated, as in --from x,gamma=N", step)
    assert step(**{"Accept length": 1.0}) == (0, 1.0, 0.02)
    assert step(3) == (3, 2.5, 0.05)
    assert step(None, **{"Drafts": 10, "Draft tokens": 38}) == (4, 2.5, 0.05)
    twice = step(3, **{"Peak requests": 9, "median TPOT (ms)": 50})
    assert twice == (3, 2.5, 0.05), "of a line that is there twice the first"


def test_a_long_line_before_a_block_is_no_heading() -> None:
    """A line of a log can mention a draft by chance."""
    block = sample("serving_block")
    plain = block.partition("---------------Speculative")[0]
    baseline = f"baseline\n{plain}"
    long = f"INFO with eagle3, n=5 {'x' * 120}\n"
    steps = ServingBlock().read("x", f"{baseline}=====\n{long}{block}", GivenFacts())
    assert [step.gamma for step in steps] == [0, 3]


def test_the_largest_number_of_requests_at_once_counts_before_their_mean() -> None:
    block = sample("serving_block")
    both = block.replace("Mean TTFT", "Concurrency:  6.5\nMean TTFT")
    (step,) = ServingBlock().read("x", both, GivenFacts())
    assert step.batch == 8
    (step,) = ServingBlock().read("x", both.replace("Maximum request concurrency", "x"), GivenFacts())
    assert step.batch == 6.5


def _twice(first: str, second: str) -> str:
    """Two blocks without counted drafts, each after a heading."""
    block = sample("serving_block").partition("---------------Speculative")[0] + "=" * 50
    return f"{first}\n{block}\n{second}\n{block}"


def test_a_heading_of_one_block_alone_makes_the_other_no_baseline() -> None:
    text = _twice("With MTP (n=2):", "And again:")
    steps = ServingBlock().read("x", text, GivenFacts(gamma=2, accepted=2.0))
    assert [step.gamma for step in steps] == [2, 2]


def test_a_heading_that_names_a_draft_needs_its_length() -> None:
    text = _twice("Without MTP:", "With MTP:")
    refused("x: block 2: gamma: must be stated", ServingBlock().read, "x", text, GivenFacts())


def test_each_block_has_the_requests_that_its_client_printed_before_it() -> None:
    text = _twice("Maximum request concurrency: 8", "Max request concurrency: 9")
    text = text.replace("Maximum request concurrency:             8", "x")
    assert [step.batch for step in ServingBlock().read("x", text, GivenFacts())] == [8, 9]


def test_the_requests_that_the_user_states_count_before_a_printed_mean() -> None:
    mean = sample("serving_block").replace("Maximum request concurrency", "Concurrency")
    (step,) = ServingBlock().read("x", mean, GivenFacts(batch=9))
    assert step.batch == 9
