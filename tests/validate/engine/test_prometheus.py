"""Pages of metrics, sample by sample, by hand."""

import pytest

from perfmodel.errors import InputError
from perfmodel.validate.engine.acceptance.prometheus import samples, since, total

PAGE = """# TYPE vllm:drafts counter
vllm:drafts_total{engine="0"} 30.0
vllm:drafts_total{engine="1"} 12.0
vllm:drafts_created{engine="0"} 1.7e9
vllm:drafts_totality 500
"""


def test_the_engines_of_a_page_add_up_and_no_other_metric_counts() -> None:
    assert total("page", PAGE, "vllm:drafts") == 42
    assert total("page", PAGE, "vllm:tokens") == 0
    assert [labels for labels, _ in samples("page", PAGE, "vllm:drafts")] == ['engine="0"', 'engine="1"']


def test_the_counts_between_two_pages_are_of_each_engine() -> None:
    later = PAGE.replace("30.0", "35.0").replace("12.0", "20.0")
    assert total("page", since(PAGE, later), "vllm:drafts") == 5 + 8


@pytest.mark.parametrize("value", ["-1", "NaN", "many"])
def test_a_count_that_is_none_is_refused_with_its_name(value: str) -> None:
    with pytest.raises(InputError, match="drafts"):
        total("page", PAGE.replace("12.0", value), "vllm:drafts")
