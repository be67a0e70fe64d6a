"""Names of bundled files, and faults in a file of another kind."""

from pathlib import Path

import pytest

from perfmodel.errors import InputError
from perfmodel.specs import files
from perfmodel.specs.devices.gpu import GPUSpec
from tests.refusals import refused


def found(name: str, **aliases: str) -> str:
    """The device of a name, where ``a_b="x"`` is an alias a-b of x."""
    table = {alias.replace("_", "-"): of for alias, of in aliases.items()}
    return files.bundled_name("gpus", "device", name, "--hardware", lambda: table)


def test_a_name_may_be_joined_where_only_one_device_can_be_meant() -> None:
    assert found("H100_SXM 80GB") == "h100-sxm-80gb"
    assert found("ab c", ab_c="h100-sxm-80gb") == "h100-sxm-80gb"
    assert found("abc", ab_c="h100-sxm-80gb", a_bc="h100-sxm-80gb") == "h100-sxm-80gb"
    assert found("a-b-c", ab_c="h100-sxm-80gb") == "h100-sxm-80gb"
    refused("--hardware: no device named 'abc'", found, "abc", ab_c="h100-sxm-80gb", a_bc="a100-sxm-80gb")
    refused("--hardware: no device named 'abc'", found, "abc", ab_d="h100-sxm-80gb")


def test_a_file_of_more_than_4_mib_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("a: 1\n" + "#" * (2**22 - 5))
    assert files.read_mapping(path) == {"a": 1}
    path.write_text("a: 1\n" + "#" * (2**22 - 4))
    refused("must be at most 4194304 bytes, given 4194305", files.read_mapping, path)


def test_a_file_of_another_kind_is_told_what_it_lacks_and_not_quoted() -> None:
    with pytest.raises(InputError) as caught:
        files.parse(GPUSpec, {"user": "me", "password": "secret"}, "mine.yaml")
    assert str(caught.value).startswith("mine.yaml: must have the keys name, ")
    assert str(caught.value).endswith("and has none of them")
    assert "secret" not in str(caught.value)
    with pytest.raises(InputError, match=r"^mine\.yaml: name: .* given 7") as caught:
        files.parse(GPUSpec, {"name": 7}, "mine.yaml")
