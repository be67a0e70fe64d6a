"""How a refusal is told: in one line, with what was given, and the names that are near it."""

import pytest

from perfmodel.errors import InputError, about_file, as_names, refuse, unknown_name


def test_what_was_given_is_cut_at_forty_characters() -> None:
    """With its quotes; a number of as many digits is cut alike, and so is an unknown name."""
    for length, shown in ((40, "'" + "x" * 40 + "'"), (41, "'" + "x" * 37 + "...'")):
        error = refuse("a.yaml", "key", "short", "x" * length)
        assert str(error) == f"a.yaml: key: must be short, given {shown}"
    for length, shown in ((80, "y" * 80), (81, "y" * 77 + "...")):
        error = unknown_name("--x", "thing", "y" * length, ["a"])
        assert str(error) == f"--x: no thing named '{shown}'; known: a"
    assert str(refuse("--x", None, "one  line", 1)) == "--x: must be one line, given 1"


def not_found(name: str, *known: list[str]) -> str:
    return str(unknown_name("--x", "thing", name, *known))


def test_a_message_has_at_most_500_characters() -> None:
    assert str(InputError("x" * 500)) == "x" * 500
    assert str(InputError("x" * 501)) == "x" * 497 + "..."


def test_the_three_nearest_names_or_all_of_up_to_thirty_two() -> None:
    near = ["abcd1", "abcd2", "abcd3", "abcd4"]
    message = not_found("ABCD", [*near, "zzz"])
    assert message == "--x: no thing named 'ABCD'; did you mean abcd4, abcd3, abcd2?"
    # half alike
    assert not_found("abzz", ["abcd"], ["zz"]).endswith("did you mean abcd?")
    assert not_found("abzzz", ["abcd"], ["zzz"]).endswith("did you mean abcd?")
    assert not_found("azzzz", ["abcd"], ["zzz"]).endswith("did you mean zzz?")
    names = [f"n{i:02d}" for i in range(33)]
    all_but_one = ", ".join(names[:32])
    assert not_found("?", names[:32]).endswith(f"known: {all_but_one}")
    assert not_found("?", names).endswith("n30, n31, ... (33 in all)")


def test_a_flag_shows_more_of_its_value_than_a_file_does() -> None:
    """A file may be anybody's, so that less of it is told, also of what a flag would say in full."""
    for length, shown in ((80, "x" * 80), (81, "x" * 77 + "...")):
        assert str(refuse("--draft-kv", None, "short", "x" * length)) == (
            f"--draft-kv: must be short, given '{shown}'"
        )
    with about_file("mine.yaml"):
        assert str(refuse("--draft-kv", None, "short", "x" * 41)).endswith(f"given '{'x' * 37}...'")
        assert "'" + "y" * 37 + "...'" in str(unknown_name("--x", "thing", "y" * 41, ["a"]))
    after = str(refuse("--draft-kv", None, "short", "x" * 41))
    assert after.endswith(f"given '{'x' * 41}'")


def test_a_file_is_named_first_and_a_flag_becomes_its_key() -> None:
    with pytest.raises(InputError) as caught, about_file("mine.yaml"):
        raise refuse("--draft-kv", None, "short", "long; see --draft-kv")
    assert caught.value.as_flags == "mine.yaml: draft_kv: must be short, given 'long; see --draft-kv'"
    assert caught.value.of_file == "mine.yaml"
    with pytest.raises(InputError) as caught, about_file("outer.yaml"), about_file("inner.yaml"):
        raise InputError("wrong")
    assert (str(caught.value), caught.value.of_file) == ("inner.yaml: wrong", "inner.yaml")


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ("--draft-kv: must be short", "draft_kv: must be short"),
        ("--tp, --pp and --kv-reread-2", "tp, pp and kv_reread_2"),
        # what is quoted was typed so
        ("run `perfmodel sweep --draft-kv full`", "run `perfmodel sweep --draft-kv full`"),
        ("given '--draft-kv'", "given '--draft-kv'"),
        ('given "--draft-kv"', 'given "--draft-kv"'),
        # an apostrophe opens no quotation
        ("the device's --draft-kv and vLLM's --tp", "the device's draft_kv and vLLM's tp"),
        # no flags
        ("a--b and ---c and --", "a--b and ---c and --"),
        ("--Upper --2nd", "--Upper --2nd"),
    ],
)
def test_arguments_are_told_by_the_names_of_python_unless_they_are_quoted(flags: str, names: str) -> None:
    assert as_names(flags) == names
