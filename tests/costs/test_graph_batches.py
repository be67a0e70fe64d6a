"""CUDA graphs that round a pass up: sizes by hand, and steps where the engine does not pad by itself."""

from dataclasses import replace

import numpy as np

from perfmodel.costs.graphs import graph_sizes
from tests.speculation.asked import scenario

SIZES = graph_sizes(8, 512)


def test_a_pass_takes_the_time_of_its_graph() -> None:
    bare = scenario(hardware="h100-sxm-80gb", draft_kv="streamingllm:512", engine="magicdec")
    graphs = replace(bare, graph_sizes=SIZES)
    at = np.arange(1.0, 65)
    stairs, smooth = np.asarray(graphs.target_pass_s(at, 4096.0)), np.asarray(bare.target_pass_s(at, 4096.0))
    assert np.all(stairs >= smooth * (1 - 1e-12))
    on_size = np.isin(at, SIZES)
    np.testing.assert_allclose(stairs[on_size], smooth[on_size], rtol=1e-12)
    assert float(graphs.target_pass_s(65.0, 4096.0, 4.0)) > float(bare.target_pass_s(65.0, 4096.0, 4.0))
