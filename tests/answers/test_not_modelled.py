"""Options of engines for features that no answer models."""

import pytest

from perfmodel.answers.point.not_modelled import NOT_MODELLED, not_modelled

LORA, STRUCTURED, ENCODERS, _, EAGER = NOT_MODELLED


@pytest.mark.parametrize(
    ("option", "feature"),
    [
        ("--enable-lora", LORA),
        ("--structured-outputs-config", STRUCTURED),
        ("--grammar-backend", STRUCTURED),
        ("--guided-decoding-backend", STRUCTURED),
        ("--vision-model", ENCODERS),
        ("--image-max-tokens", ENCODERS),
        ("--audio-model", ENCODERS),
        ("--mmproj", ENCODERS),
        ("--mm-processor-kwargs", ENCODERS),
        ("--enforce-eager", EAGER),
        ("--disable-cuda-graph", EAGER),
    ],
)
def test_an_option_of_an_unmodelled_feature_is_named(option: str, feature: str) -> None:
    said = not_modelled(option)
    assert said is not None
    assert said.startswith(f"{feature}: not modelled; a server with them is slower than predicted")
    assert ("validate engine --watch LOG" in said) == (feature == EAGER)


@pytest.mark.parametrize(
    "option", ["--max-num-seqs", "--gamma", "--tp", "--cuda-graph-max-bs", "--limit-mm-per-prompt"]
)
def test_other_options_are_not(option: str) -> None:
    assert not_modelled(option) is None
