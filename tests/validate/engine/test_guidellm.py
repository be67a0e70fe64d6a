"""The tables of GuideLLM: the batch and the lengths of their steps, and how prompts prolong them."""

import pytest

from perfmodel.validate.engine.formats import read_pasted
from perfmodel.validate.engine.timing import GivenFacts
from tests.validate.engine.pasting import sample


@pytest.mark.parametrize(
    ("given", "batch", "context"),
    [({}, 7.9, 1152), ({"batch": 6}, 6, 1152), ({"input": 2000, "output": 10}, 7.9, 1152)],
)
def test_a_flag_states_the_batch_of_guidellm_and_its_table_the_lengths(given, batch, context) -> None:
    """The mean concurrency of the table is below the number of clients if some of them wait."""
    pasted = sample("guidellm_table").replace("concurrent@8", "throughput  ")
    timing = read_pasted("-", pasted, GivenFacts(**given))[1]
    assert (timing.batch, timing.context) == (batch, context)


def test_prompts_of_guidellm_prolong_steps_where_there_are_more_than_clients() -> None:
    """18 requests of one client, and 8 of 8 clients."""
    one, eight = read_pasted("-", sample("guidellm_table"), GivenFacts())
    assert one.prefill_share == 0
    assert eight.prefill_share == 0
    more = sample("guidellm_table").replace("|     8|    0|    0|", "|    80|    0|    0|")
    assert read_pasted("-", more, GivenFacts())[1].prefill_share > 0.1


def test_the_tables_of_newer_guidellm_have_several_lines_of_heads() -> None:
    """As `guidellm` 0.8.1 prints them, two columns of each table kept."""
    tables = """
|==============|========|========|
| Benchmark    | Input Tok      ||
| Strategy     | Per Req        ||
|              | Mdn    | p95    |
|--------------|--------|--------|
| concurrent@4 | 1024.0 | 1030.0 |
|==============|========|========|
Output, cut by hand
|==============|=======|=======|
| Benchmark    | Output Tok   ||
| Strategy     | Per Req      ||
|              | Mdn   | p95   |
|--------------|-------|-------|
| concurrent@4 | 256.0 | 256.0 |
|==============|=======|=======|

Request Latency Statistics (Completed Requests)
|==============|=============|=======|======|======|
| Benchmark    | TTFT               || ITL        ||
| Strategy     | ms                 || ms         ||
|              | Mean        | Mdn   | Mean | Mdn  |
|--------------|-------------|-------|------|------|
| concurrent@4 | 100.0 ± 2.0 | 99.0* | 12.2 | 12.1 |
|==============|=============|=======|======|======|
"""
    (timing,) = read_pasted("-", tables, GivenFacts())
    assert (timing.batch, timing.context, timing.seconds, timing.ttft_s) == (4, 1152, 0.0121, 0.099)
    requests = """
Run Summary Info, cut by hand
|==============|======|=====|
| Benchmark    | Requests  ||
| Strategy     | Comp | Err |
|              | Tot  | Tot |
|--------------|------|-----|
| concurrent@4 | 40.0 | 0.0 |
|==============|======|=====|
"""
    assert timing.prefill_share == 0
    (timing,) = read_pasted("-", requests + tables, GivenFacts())
    assert timing.prefill_share > 0, "40 prompts of 4 clients prolong the steps"
