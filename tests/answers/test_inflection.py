"""The three lengths as an answer."""

from perfmodel.answers.inflection import InflectionQuery, inflection


def test_the_draft_that_is_not_named_is_the_engines_on_the_ideal_roofline_too() -> None:
    """Qwen3-32B has a published EAGLE-3 head; `ideal` is no engine and would leave the model to draft for itself."""
    a = inflection(InflectionQuery("qwen3-32b", "h200", 8, 3, 8192, engine="vllm"))
    assert (a.draft, a.draft_kv, a.break_even_context, a.ideal.break_even_context) == ("eagle3", "full", 1, 1)
