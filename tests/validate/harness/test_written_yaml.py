"""What the writer of device and calibration files refuses to write."""

from perfmodel.specs import load_calibration
from perfmodel.validate.harness.micro.write import write_yaml
from tests.refusals import refused

FITTED = load_calibration("h100-sxm-80gb.vllm")


def test_a_file_with_other_contents_is_not_overwritten(tmp_path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("mine: 1\n")
    refused("--out: .*c.yaml exists with other contents", write_yaml, FITTED, path, "a fit")
    assert path.read_text() == "mine: 1\n"


def test_the_same_contents_can_be_written_again(tmp_path) -> None:
    path = write_yaml(FITTED, tmp_path / "c.yaml", "a fit")
    first = path.read_text()
    assert write_yaml(FITTED, path, "a fit").read_text() == first


def test_values_that_the_reader_would_refuse_are_not_written(tmp_path) -> None:
    path = tmp_path / "c.yaml"
    negative = FITTED.replace(gemm_fixed_s=FITTED.gemm_fixed_s.replace(value=-1.0))
    refused("c.yaml: .*gemm_fixed_s", write_yaml, negative, path, "a fit")
    assert not path.exists()
