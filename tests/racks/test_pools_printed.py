"""Two pools in words and in a table, from rows that are given by hand."""

import re
from typing import Any

import pytest

from perfmodel.answers.load.pool_row import PoolRow
from perfmodel.answers.load.pools_answer import Pools
from perfmodel.cli.traffic_pools import say_pools


def row(gamma: int, rate: float = 1000.0, **more: Any) -> PoolRow:
    """One load of 2 requests per second; every time has another size."""
    fields: dict[str, Any] = {
        "request_rate": 2.0,
        "clients": None,
        "gamma": gamma,
        "decode_batch": 48.0,
        "decode_batch_per_gpu": 6.0,
        "tpot_s": 0.011,
        "tpot_p90_s": 0.012,
        "tpot_p99_s": 0.013,
        "ttft_s": 0.31,
        "ttft_p90_s": 0.62,
        "ttft_p99_s": 0.93,
        "queue_s": 0.021,
        "prefill_s": 0.22,
        "transfer_s": 0.033,
        "first_step_s": 0.044,
        "prefill_used": 0.25,
        "decode_used": 0.75,
        "limits": "decode",
        "saturated": False,
        "slo_share": 0.9,
        "output_tokens_per_s": rate,
        "output_tokens_per_s_per_gpu": rate / 24,
    }
    return PoolRow(**fields | more)


def pools(*rows: PoolRow, **more: Any) -> Pools:
    """16 prefill and 8 decode devices. Prompts need two prefill devices per decode device, with a draft of
    three tokens three.
    """
    fields: dict[str, Any] = {
        "prefill": "2x8",
        "decode": "1x8:dp8,ep8",
        "prefill_gpus": 16,
        "decode_gpus": 8,
        "rows": rows,
        "ratio": {row.gamma: 2.0 if row.gamma == 0 else 3.0 for row in rows},
        "best_split": {0: (1, 2), 3: (2, 1)},
        "transfer_bytes": 12e6,
        "transfer_source": "measured",
        "prefix_hit_rate": None,
        "notes": (),
    }
    return Pools(**fields | more)


def test_the_best_row_has_the_highest_rate_at_the_last_load() -> None:
    calm = (row(0, 5000.0), row(3, 9000.0))
    busy = (row(0, 1000.0), row(3, 1200.0))
    assert pools(*busy).best == busy[1]
    assert pools(*calm, *busy).best == busy[1]


def test_at_equal_rates_the_best_row_has_the_shortest_time_per_token() -> None:
    slower = row(0, tpot_s=0.02)
    faster = row(3, tpot_s=0.01)
    assert pools(slower, faster).best == faster
    assert pools(row(0, tpot_s=0.01), row(3, tpot_s=0.02)).best.gamma == 0


def test_the_sentence_states_the_ratio_of_the_pools_without_a_draft_and_with_it() -> None:
    assert pools(row(0), row(3, 1200.0)).sentence == (
        "Prefill 2x8, decode 1x8:dp8,ep8: gamma 3, 50 tokens/s per GPU, limited by decode; "
        "full pools need 2.00 prefill GPUs per decode GPU without a draft, 3.00 with it"
    )
    assert pools(row(0)).sentence == (
        "Prefill 2x8, decode 1x8:dp8,ep8: no draft, 42 tokens/s per GPU, limited by decode; "
        "full pools need 2.00 prefill GPUs per decode GPU"
    )


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The answer on a wide terminal, where each cell is on one line."""
    monkeypatch.setenv("COLUMNS", "300")
    say_pools(pools(row(0), row(3, 1200.0), prefix_hit_rate=0.5))
    return capsys.readouterr().out


def test_every_figure_stands_under_its_name(printed: str) -> None:
    lines = [re.split(r"\s{2,}", line.strip()) for line in printed.splitlines()]
    header = next(number for number, cells in enumerate(lines) if cells[0] == "load")
    drafting = next(cells for cells in lines[header:] if cells[:2] == ["2/s", "3"])
    assert dict(zip(lines[header], drafting, strict=True)) == {
        "load": "2/s",
        "draft tokens": "3",
        "decode batch": "48.0",
        "TPOT": "11 ms",
        "p99": "930 ms",
        "TTFT": "310 ms",
        "queue": "21 ms",
        "prefill": "220 ms",
        "transfer": "33 ms",
        "step": "44 ms",
        "P used": "25%",
        "D used": "75%",
        "SLO": "90%",
        "tokens/s/GPU": "50",
    }
    assert drafting[lines[header].index("p99")] == "13 ms", "that of TPOT stands first"


def test_the_best_split_is_of_the_best_row_with_the_sizes_of_the_pools(printed: str) -> None:
    assert "highest rate of 24 GPUs: --prefill 2x8 --decode 1x8:dp8,ep8" in printed


def test_what_a_prompt_sends_and_what_caches_hold(printed: str) -> None:
    assert "12 MB of cache on a device for each prompt; link: measured" in printed
    assert "50% of the prompt tokens are found in the caches of the prefill pool" in printed
