"""Files made of a microbenchmark record: a calibration, and for a CPU the device file that it needs."""

from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from perfmodel.errors import InputError
from perfmodel.specs.calibration import Calibration
from perfmodel.specs.gpu import GPUSpec, load_gpu
from perfmodel.validate.harness.micro.fit import Statistic, calibration_from
from perfmodel.validate.harness.micro.host import host_spec
from perfmodel.validate.records.record import read_record


def device_from(record: Path, name: str) -> GPUSpec:
    """The CPU of a record, whose own calibration is to be ``<name>.micro``."""
    return host_spec(read_record(record), name, f"{name}.micro")


def calibrate_from_microbench(
    record: Path, hardware: str | GPUSpec | None = None, name: str | None = None, statistic: Statistic = "median"
) -> Calibration:
    """What ``perfmodel validate calibrate --from-microbench RECORD`` does.

    hardware: the device (default: the one the record names). name: the calibration's (default ``<device>.micro``).
    """
    read = read_record(record)
    gpu = hardware if isinstance(hardware, GPUSpec) else load_gpu(hardware or read.data.hardware)
    return calibration_from(read, gpu, name or f"{gpu.name}.micro", statistic)


def as_yaml(value: BaseModel, comment: str) -> str:
    """One key a line, figures with their source on it."""
    data: dict[str, Any] = value.model_dump(mode="json", exclude_defaults=True)
    lines = [f"# {comment}"]
    for key, entry in data.items():
        shown = yaml.safe_dump(entry, default_flow_style=True, sort_keys=False, width=10_000, allow_unicode=True)
        lines.append(f"{key}: {shown.removesuffix(chr(10)).removesuffix('...').rstrip()}")
    return "\n".join(lines) + "\n"


def write_yaml(value: BaseModel, path: Path, comment: str) -> Path:
    """The file of `as_yaml`. Raises InputError where it exists with other contents."""
    text = as_yaml(value, comment)
    if path.exists() and path.read_text(encoding="utf-8") != text:
        raise InputError(f"--out: {path} exists with other contents; name a new file or remove it first")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
