"""CUDA graphs that round a pass up: sizes by hand, and steps where the engine does not pad by itself."""

from dataclasses import replace

import numpy as np
import pytest

from perfmodel.costs.graphs import graph_sizes, padded
from perfmodel.errors import InputError
from tests.speculation.asked import scenario

SIZES = graph_sizes(8, 512)


def test_tokens_are_rounded_up_to_the_next_graph() -> None:
    """Beyond the largest graph they run as they are; a verification of 65 x 4 tokens pads to 264."""
    tokens = np.array([1, 3, 4, 5, 9, 512, 600, 260])
    assert list(padded(tokens, SIZES)) == [1, 4, 4, 8, 16, 512, 600, 264]
    with pytest.raises(InputError, match="rising"):
        padded(4.0, (4, 2))


def test_a_pass_takes_the_time_of_its_graph() -> None:
    bare = scenario(hardware="h100-sxm-80gb", draft_kv="streamingllm:512", engine="magicdec")
    graphs = replace(bare, graph_sizes=SIZES)
    at = np.arange(1.0, 65)
    stairs, smooth = np.asarray(graphs.target_pass_s(at, 4096.0)), np.asarray(bare.target_pass_s(at, 4096.0))
    assert np.all(stairs >= smooth * (1 - 1e-12))
    on_size = np.isin(at, SIZES)
    np.testing.assert_allclose(stairs[on_size], smooth[on_size], rtol=1e-12)
    assert float(graphs.target_pass_s(65.0, 4096.0, 4.0)) > float(bare.target_pass_s(65.0, 4096.0, 4.0))
