"""The bundled devices: complete, sourced, and inside physical bounds."""

import pytest

from perfmodel.specs import GPUSpec, files, load_gpu, modelled_power_limit
from perfmodel.specs.boundary.units import Quantity
from perfmodel.specs.devices.power import PowerDraw
from tests.refusals import refused
from tests.specs.configs import DEVICE, page

NAMES = files.bundled_names("gpus")


def test_printed_numbers_by_hand() -> None:
    a100 = load_gpu("a100-sxm-80gb")
    h100 = load_gpu("h100-sxm-80gb")
    assert a100.peak_flops("bf16") == 312e12
    assert a100.memory_bandwidth_bytes_per_s == 2039e9
    assert a100.stated_memory.si == 80e9
    assert a100.memory_bytes == 79.2 * 2**30
    assert a100.link_rate(2) == 300e9
    # 132 SMs x 4096 dense FLOP a clock x 1.83 GHz; the data sheet's 1979 counts 2:4 sparsity.
    assert h100.peak_flops("bf16") == pytest.approx(132 * 4096 * 1.83e9, rel=1e-3)
    assert load_gpu("h200").peak_flops("bf16") == h100.peak_flops("bf16")
    l40s, l40 = (load_gpu(name).peak_flops("bf16") for name in ("l40s", "l40"))
    assert l40s == pytest.approx(2 * l40, rel=1e-3)
    assert load_gpu("l40s").link_rate(2) == 32e9  # no device link: the host link carries it


def test_what_nobody_measured_is_refused_not_scaled() -> None:
    for precision in ("fp8", "fp16", "nonsense"):
        refused(
            rf"0gb has no published {precision} peak; it has fp32, bf16, int8",
            load_gpu("a100").peak_flops,
            precision,
        )
    cpu = load_gpu("x86-xeon-8480")
    assert cpu.memory_bandwidth.evidence == "derived"
    refused("no published bf16 peak; measure it", cpu.peak_flops, "bf16")
    refused("no memory size", lambda: cpu.memory_bytes)


@pytest.mark.parametrize(
    ("name", "precision", "multiprocessors", "per_clock", "mhz", "printed"),
    [
        ("rtx-5080", "fp4", 84, 4096, 2617, 1801 / 2),  # "1801 AI TOPS": fp4, sparse
        ("rtx-5070-ti", "fp4", 70, 4096, 2452, 1406 / 2),
        ("rtx-5060-ti", "fp4", 36, 4096, 2572, 759 / 2),
        ("rtx-pro-6000-max-q", "fp4", 188, 8192 / 2, 2280, 3511 / 2),
        ("rtx-4080", "bf16", 76, 512, 2505, 97.5),
        ("arc-pro-b60", "int8", 20, 4096, 2400, 197),
        ("strix-halo", "bf16", 40, 512, 2900, 59.4),
    ],
)
def test_peaks_follow_from_multiprocessors_and_clock(
    name: str, precision: str, multiprocessors: int, per_clock: float, mhz: float, printed: float
) -> None:
    """What a page prints, and the product of what it is made of."""
    tera = load_gpu(name).peak_flops(precision) / 1e12
    assert tera == pytest.approx(multiprocessors * per_clock * mhz * 1e6 / 1e12, rel=5e-3)
    assert tera == pytest.approx(printed, rel=5e-3)


def test_a_box_of_another_generation() -> None:
    """An L40S comes with PCIe 4.0; two of them without a link of their own talk over the box's."""
    boxes = ("", ":pcie3", ":pcie4", ":pcie5", ":pcie6")
    assert [load_gpu(f"l40s{box}").link_rate(2) for box in boxes] == [32e9, 16e9, 32e9, 64e9, 128e9]
    assert load_gpu("l40s:pcie5").name == "l40s-48gb"


def test_a_bridge_counts_if_the_name_states_it() -> None:
    """Most pairs of RTX 3090 have no NVLink bridge, which is sold separately; an SXM board has its NVLink."""
    for suffix in ("", ":pcie4"):
        assert load_gpu(f"rtx-3090{suffix}").over_host(2)
    for suffix in (":nvlink", ":NVLink", " NVLink", " (NVLink)", " with NVLink bridge", " w/ NVLink"):
        assert not load_gpu(f"RTX 3090{suffix}").over_host(2)
    assert load_gpu("rtx-3090:nvlink").over_host(3)
    assert not any(load_gpu(f"h100{suffix}").over_host(8) for suffix in ("", ":nvlink", ":pcie5"))
    for name in ("rtx-3090:pcie3:nvlink", "rtx-3090:nvlink:pcie3"):
        assert not load_gpu(name).over_host(2)
        assert load_gpu(name).host_link.per_direction.value == 16
    for name in ("rtx-4090:nvlink", "mi300x:nvlink", "m3-ultra:nvlink", "rtx-4090:pcie4:nvlink"):
        refused("hardware: must be a device with NVLink before :nvlink", load_gpu, name)
    refused("hardware: must be a device with :nvlink only once", load_gpu, "rtx-3090:nvlink:nvlink")
    refused("followed by one of 3, 4, 5, 6", load_gpu, "rtx-3090:pcie9:nvlink")


def test_a_machine_with_less_memory() -> None:
    """Memory is all that differs: a Mac with 512 GiB gives its GPU 0.84 of it, one with 96 GiB 0.81."""
    whole = load_gpu("m3-ultra")
    less = load_gpu("M3-Ultra:96GB")
    assert whole.memory_bytes == 0.84 * 512 * 2**30
    assert less.memory_bytes == 0.81 * 96 * 2**30
    assert whole.label == "apple-m3-ultra-512gb"
    assert less.label == "apple-m3-ultra-512gb:96gb"
    assert load_gpu(less.label).label == less.label
    assert less.replace(memory=whole.memory) == whole
    # in the unit of the board
    assert [load_gpu(b).memory_bytes for b in ("5060-ti:8gb", "a100-sxm-80gb:48gb")] == [8 * 2**30, 48e9]


def test_a_size_that_is_a_device_of_its_own() -> None:
    """36 GB are sold with the M4 Max of 32 cores, 410 GB/s; an A100 of 40 GB has slower memory."""
    assert load_gpu("m4-max:36gb").name == "apple-m4-max-36gb"
    assert load_gpu("m4-max:36gb").memory_bandwidth_bytes_per_s == 410e9
    assert load_gpu("a100-sxm-80gb:40gb").name == "a100-sxm-40gb"
    assert load_gpu("m4-max:64gb").memory_bandwidth_bytes_per_s == 546e9


ENDS = {
    "memory": ("GB", 0.1, 1e5),
    "last_level_cache": ("MB", 0.01, 1e5),
    "memory_bandwidth": ("GB/s", 0.1, 1e6),
    "multiprocessors": ("count", 1, 1e6),
    "boost_clock": ("MHz", 10, 1e5),
    "power": ("W", 0.1, 1e6),
    "bf16": ("GFLOP/s", 1, 1e9),
}
"""Quantity -> a unit of it, the least and the most that is possible."""


@pytest.mark.parametrize("name", ENDS)
def test_a_quantity_at_the_ends_of_what_is_possible(name: str) -> None:
    unit, least, most = ENDS[name]

    def stated(value: float) -> GPUSpec:
        quantity = {name: page(value, unit)}
        return files.parse(
            GPUSpec, DEVICE | ({"peak": quantity} if name == "bf16" else quantity), "mine.yaml"
        )

    for end in (least, most):
        spec = stated(end)
        assert (spec.peak[name] if name == "bf16" else getattr(spec, name)).value == end  # type: ignore[index]
    step = 1 if unit == "count" else 1e-6
    for beyond in (least - least * step, most + most * step):
        refused(f"{name}: must be|{name}.value", stated, beyond)


def test_a_link_reaches_the_devices_that_it_joins() -> None:
    """A bridge of two; without any link there is no rate; a unit has a source of three letters or more."""
    bridge = {"name": "bridge", "per_direction": page(300, "GB/s"), "devices": 2}
    host = {"name": "PCIe", "per_direction": page(32, "GB/s")}
    bridged = files.parse(GPUSpec, DEVICE | {"link": bridge, "host_link": host}, "mine.yaml")
    assert [bridged.link_rate(n) for n in (2, 3)] == [300e9, 32e9]
    bare = files.parse(GPUSpec, DEVICE, "mine.yaml")
    assert bare.link_rate(2) is None
    assert bare.over_host(2) is True
    for fault, key in (
        ({"devices": 1}, "link.devices"),
        ({"per_direction": page(1, "GB/s") | {"source": "ab"}}, "source"),
    ):
        refused(key, files.parse, GPUSpec, DEVICE | {"link": bridge | fault}, "mine.yaml")
    small = page(1e-6, "TB/s")
    assert Quantity.of_mapping(small | {"unit": "MHz"}).si == 1.0
    refused(
        r"^mine.yaml: value: must be a number >= 1e-06, given 9e-07$",
        files.parse,
        Quantity,
        small | {"value": 9e-7},
        "mine.yaml",
    )


POWER_DRAW = {
    "limit_w": 600,
    "lowest_limit_w": 400,
    "static_w": 300,
    "joules_per_byte": 1e-10,
    "joules_per_flop": 1e-11,
    "memory_share": 0.7,
    "model": "a model",
    "source": "a page",
}


@pytest.mark.parametrize("fault", [{"static_w": 400}, {"lowest_limit_w": 601}])
def test_the_static_power_is_below_every_limit_and_the_lowest_limit_below_the_usual(
    fault: dict[str, float],
) -> None:
    good = DEVICE | {"power_draw": POWER_DRAW}
    assert files.parse(GPUSpec, good, "mine.yaml").power_draw is not None
    bad = DEVICE | {"power_draw": POWER_DRAW | fault}
    refused("power_draw: static_w, .* must rise", files.parse, GPUSpec, bad, "mine.yaml")


@pytest.mark.parametrize(("limit_w", "allowed"), [(399, False), (400, True), (600, True), (601, False)])
def test_a_power_limit_is_one_of_those_that_were_measured(limit_w: float, allowed: bool) -> None:
    gpu = files.parse(GPUSpec, DEVICE | {"power_draw": POWER_DRAW}, "mine.yaml")
    if allowed:
        assert modelled_power_limit(gpu, limit_w) == limit_w
    else:
        refused("power-limit: must be from 400 to 600 W", modelled_power_limit, gpu, limit_w)
    assert modelled_power_limit(files.parse(GPUSpec, DEVICE, "mine.yaml"), limit_w) is None


def test_the_share_of_a_working_set_is_that_of_the_largest_size_reached() -> None:
    def stated(*sizes_gib: float) -> GPUSpec:
        shares = [{"from_gib": size, "share": 0.6 + 0.1 * i} for i, size in enumerate(sizes_gib)]
        working_set = {"shares": shares, "source": "a page"}
        memory = {"memory": page(32, "GiB"), "working_set": working_set}
        return files.parse(GPUSpec, DEVICE | memory, "mine.yaml")

    assert stated(0, 32).memory_bytes == pytest.approx(0.7 * 32 * 2**30)
    assert stated(0, 33).memory_bytes == pytest.approx(0.6 * 32 * 2**30)
    for sizes in ((1, 32), (0, 32, 16)):
        refused("working_set: shares must rise", stated, *sizes)


def test_every_mac_has_the_same_shares() -> None:
    names = [name for name in files.bundled_names("gpus") if name.startswith("apple-")]
    assert len(names) > 20
    assert len({load_gpu(name).working_set for name in names}) == 1


def test_the_clock_under_a_low_limit_is_exact() -> None:
    """All of an iteration of 1 s and 100 J slows down. With 10 W above the static power, the clock is the
    cube root of a tenth, and the energy of the work falls with its square.
    """
    draw = PowerDraw(
        limit_w=400,
        lowest_limit_w=60,
        static_w=50,
        joules_per_byte=1e-12,
        joules_per_flop=1e-12,
        memory_share=1,
        model="m",
        source="made up for the test",
    )
    slowed = draw.limited(60.0, seconds=1.0, free_s=0.0, moved=0.0, flops=1e14)
    clock = 0.1 ** (1 / 3)
    assert slowed.seconds == pytest.approx(1 / clock, rel=1e-9)
    assert slowed.joules == pytest.approx(60 / clock, rel=1e-9)
