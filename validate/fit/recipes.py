"""Which constants are fitted for which device and stack, and why the others are not.

Constants that a set of measurements cannot determine stay at the value of the literature calibration that a recipe
starts from; each recipe's `notes` and `pinned` say so where the reason is not obvious. Where a fit looks for a
constant stands with its declaration, in perfmodel/specs/calibration.py.
"""

from dataclasses import dataclass, field

from perfmodel.errors import unknown_name

FLASHINFER_WAVES = (
    "FlashInfer plans two resident blocks per multiprocessor and cuts no sequence once that many are busy, "
    "arXiv 2501.01005; seen as the step between B = 48 and 64 in MagicDec, arXiv 2408.11049, Tables 3a and 3b"
)


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one fitted calibration is made.

    base: the calibration that it starts from. free: names of the constants that are fitted. pinned: name -> (value,
    why), where it differs from the base.
    """

    name: str
    gpu: str
    stack: str
    base: str
    set_name: str
    free: tuple[str, ...]
    pinned: dict[str, tuple[float, str]] = field(default_factory=dict, hash=False)
    shards_lm_head: bool = True
    notes: str = ""


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            name="a100-sxm-80gb.magicdec",
            gpu="a100-sxm-80gb",
            stack="magicdec",
            base="a100-sxm-80gb.literature",
            set_name="magicdec",
            free=(
                "gemm_flops_fraction",
                "attention_bandwidth_fraction",
                "kv_reread_per_query",
                "small_kernel_s",
                "full_cache_pass_s",
                "sparse_cache_sequence_s",
                "iteration_fixed_s",
                "iteration_sequence_s",
            ),
            pinned={"attention_blocks_per_multiprocessor": (2.0, FLASHINFER_WAVES)},
            notes=(
                "torch.compile, CUDA graphs, FlashInfer, custom all-reduce. Pinned: all-reduce curve, GEMM "
                "bandwidth and start-up, the constant of every pass; the rows trade them against small kernels. "
                "The LM head is taken to be sharded, drafts to run on all devices: eight fit as well as four, two "
                "or one do not."
            ),
        ),
        Recipe(
            name="h100-sxm-80gb.magicdec",
            gpu="h100-sxm-80gb",
            stack="magicdec",
            base="h100-sxm-80gb.literature",
            set_name="magicdec",
            free=("small_kernel_s", "allreduce_multiplier", "iteration_fixed_s"),
            pinned={
                "attention_blocks_per_multiprocessor": (
                    2.0,
                    "no row has that many sequences: as on A100; " + FLASHINFER_WAVES,
                ),
                "kv_reread_per_query": (
                    0.005,
                    "set, not fitted (freely 0.004 +- 0.007): reported to suit runs of this stack that are not here, "
                    "while held-out rows here are predicted better without it",
                ),
            },
            notes=(
                "torch.compile, CUDA graphs, FlashInfer, custom all-reduce. Pinned: everything about GEMMs (the "
                "rows have one target and one device count) and the share of bandwidth of attention (fitted within "
                "one standard error of the kernel's; other drafts are predicted better without), the constant of a "
                "pass (within two of zero), the KV re-read factor, and what a sparse cache costs a sequence on "
                "A100 (within one)."
            ),
        ),
        Recipe(
            name="a100-sxm-80gb.gpt-fast",
            gpu="a100-sxm-80gb",
            stack="gpt-fast",
            base="a100-sxm-80gb.literature",
            set_name="gptfast_decode",
            free=("gemm_bandwidth_fraction", "weight_unpack_s", "small_kernel_s"),
            shards_lm_head=False,
            notes=(
                "Batch 1, devices limited to 330 W. Embedding and LM head are kept whole on every device. Pinned: "
                "all-reduce curve and everything about attention, which 105 cached tokens do not show; no row "
                "speculates, so the time of an iteration outside its passes is the literature's."
            ),
        ),
    )
}


def recipe_of(name: str) -> Recipe:
    """A recipe by the name of its calibration. Raises InputError."""
    if name not in RECIPES:
        raise unknown_name("NAME", "fitted calibration", name, RECIPES)
    return RECIPES[name]
