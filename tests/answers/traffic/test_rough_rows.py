"""Rough rows, from fewer replays than those of `traffic`."""

import pytest

from perfmodel.answers.load.largest_load import OneServer
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.load.traffic_rows import MadeBy

SERVER = {
    "model": "qwen3-8b",
    "hardware": "rtx-4090",
    "weights": "int4-g128",
    "draft": "eagle3",
    "input_len": 4096,
    "output_len": 500,
}


@pytest.mark.parametrize("drafts", [False, True])
@pytest.mark.parametrize("load", [{"max_concurrency": 16}, {"max_concurrency": 60}, {"request_rate": 0.6}])
def test_no_time_of_a_rough_row_is_longer(load: dict[str, float], drafts: bool) -> None:
    """60 clients wait for a seat; at 0.6 requests/s the server is nearly saturated."""
    asked = TrafficQuery(**SERVER, **load)
    (at,) = asked.loop.values.tolist()
    rough = OneServer.of(asked, drafts).row(at, rough=True)
    row = OneServer.of(asked, drafts).row(at)
    assert row.made_by is rough.made_by is MadeBy.REPLAY
    for name in ("tpot_s", "ttft_s", "e2e_s"):
        assert getattr(rough, name).mean <= getattr(row, name).mean
