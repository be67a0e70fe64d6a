"""Parts of the block of results of ``vllm bench serve``."""

import pytest

from perfmodel.errors import InputError
from perfmodel.validate.engine.formats import read_pasted
from perfmodel.validate.engine.timing import GivenFacts

PART = """Maximum request concurrency:             8
Successful requests:                     64
Total input tokens:                      65536
Total generated tokens:                  16384
Mean TPOT (ms):                          27.1
Median TPOT (ms):                        27.0
"""
TITLE = "============ Serving Benchmark Result ============\n"


def test_the_load_of_a_part_is_read() -> None:
    (step,) = read_pasted("-", PART, GivenFacts())
    assert step.name == "B=8 S=1152 baseline"
    assert step.seconds == pytest.approx(0.027)
    (given,) = read_pasted("-", PART, GivenFacts(batch=4))
    assert given.batch == 4


def test_parts_of_several_runs_are_told_apart_by_a_title_before_each() -> None:
    plain = f"# baseline\n{PART}# eagle3 k=3\n{PART}Acceptance length: 2.31\n"
    with pytest.raises(InputError, match="has the TPOT of several runs: paste one"):
        read_pasted("-", plain, GivenFacts())
    titled = plain.replace("Maximum", f"{TITLE}Maximum")
    assert [step.gamma for step in read_pasted("-", titled, GivenFacts())] == [0, 3]
