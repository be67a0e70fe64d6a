"""Warnings about the device of a question: its number formats, links, power and cooling, and the constants
that were fitted for another device.
"""

import math
import re
from collections.abc import Iterator

from perfmodel.answers.question.query import CommonOptions
from perfmodel.specs import ENGINES, GPUSpec, source_errors, weight_format
from perfmodel.speculation import Scenario, is_transferred

FANLESS = re.compile(r"macbook[ _-]?air", re.I)
"""Name of a device without a fan (Apple, "MacBook Air with M1", 2020: fanless design)."""


def of_power(scenario: Scenario, batch: float) -> Iterator[str]:
    """A warning if the power of the device was measured with another model or batch."""
    power = scenario.machine.gpu.power_draw
    if power and (scenario.target.name, batch) != (power.model, 1.0):
        yield f"power was measured with {power.model} at batch 1; here it is scaled by bytes and FLOPs"


def of_power_limit(question: CommonOptions, scenario: Scenario) -> Iterator[str]:
    """A warning if the question states a power limit for a device whose power was not measured."""
    limit_w = getattr(question, "power_limit", None)
    if limit_w is not None and scenario.power_limit_w is None:
        yield (
            f"the power of {scenario.machine.gpu.name} was not measured: the answer ignores the limit, and "
            f"at {limit_w:g} W the device may be slower"
        )


def of_device(scenario: Scenario) -> Iterator[str]:
    """Warnings about number formats in which the device cannot compute, about links between devices or
    machines, and about calibration constants from another engine, device or vendor.
    """
    gpu = scenario.machine.gpu
    stored = weight_format(scenario.target.weights)
    run = scenario.precision.weights
    if run != stored and run == stored.within(gpu.peak, wide_mxfp4=True):
        yield f"{gpu.name} cannot compute in the checkpoint's {stored.name}; it runs weight-only: {run.name}"
    if len(gpu.makers_in_turn) > 1:
        yield (
            f"devices of {' and '.join(gpu.makers_in_turn)} share one server with llama.cpp's Vulkan "
            "backend: no run of such a server was fitted"
        )
    devices = scenario.server_devices
    if devices > gpu.box_devices == 1 and scenario.machine.fabric is None:
        yield (
            f"each of the {devices} devices is a machine of its own: messages between them are predicted as "
            "in one box, because no times between such machines are known"
        )
    yield from _of_links(scenario)
    yield from _of_transfer(scenario)


def of_gpu_limit(gpu: GPUSpec, missing_bytes: float) -> Iterator[str]:
    """A warning with the command that raises macOS's limit on the memory of the GPU, if that is enough for a
    configuration that does not fit. The command is in a line of its own.

    - missing_bytes: memory that the configuration needs beyond the available memory.
    """
    limit_mib = gpu.raised_limit_mib(missing_bytes)
    if limit_mib is not None:
        yield (
            f"by default, macOS lets the GPU use {gpu.memory_bytes / 1e9:.1f} GB; this would fit with a "
            f"higher limit, until the next restart:\nsudo sysctl iogpu.wired_limit_mb={limit_mib}"
        )


def of_cooling(hardware: str) -> Iterator[str]:
    """A warning for a name of a device without a fan."""
    if FANLESS.search(hardware):
        yield (
            "a MacBook Air has no fan: a long run is slower than predicted, and of two runs the later one is "
            "slowed more"
        )


def _of_links(scenario: Scenario) -> Iterator[str]:
    """A warning about a bridge that joins fewer devices than the server has, or about a bridge that is
    assumed or not assumed.
    """
    gpu = scenario.machine.gpu
    tp = scenario.machine.tensor_parallel
    link = gpu.link
    if link is None or link.devices is None:
        return
    if scenario.machine.over_host and tp <= link.devices:
        yield (
            f"no {link.name} is assumed between the {tp} devices, because it is sold separately; "
            f"--hardware {gpu.name}:nvlink has one"
        )
    elif scenario.machine.over_host:
        yield (
            f"the link of {gpu.name} joins {link.devices} devices: {tp} communicate over PCIe, and "
            "PCIe differs between servers"
        )
    elif tp > 1 and link.presence == "usual":
        yield (
            f"{link.name} is assumed between the {tp} devices; "
            f"--hardware {gpu.name}:pcie4 (or pcie5) has none"
        )


def _of_transfer(scenario: Scenario) -> Iterator[str]:
    """Warnings about constants that were fitted for another engine, device or vendor."""
    gpu = scenario.machine.gpu
    calibration = scenario.machine.calibration
    if calibration.constants_of:
        lender = ENGINES[calibration.constants_of]
        yield (
            f"no constants were fitted for {ENGINES[calibration.stack]}: those of {lender} are "
            "used, and errors with such constants were larger"
        )
    if is_transferred(scenario) and calibration.gpu != gpu.name:
        yield (
            f"calibration {calibration.name} is transferred from {calibration.gpu}: it was not made for "
            f"{gpu.name}"
        )
    model = scenario.target.name
    of_other_maker = calibration.errors and calibration.relation("target_s", model, gpu) == "maker"
    error = calibration.error("target_s", model, gpu)
    if of_other_maker and error and gpu.name not in source_errors().devices:
        yield (
            f"{gpu.name} is from another vendor; such predictions were wrong by a factor of "
            f"{math.exp(error.log_rms):.1f}"
        )
