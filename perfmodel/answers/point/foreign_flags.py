"""Flags of serving engines and other programs that `perfmodel` does not have, and the flag or command to use
instead.
"""

LENGTH = "--gamma N, drafted tokens per iteration"
POOLS = "`traffic --prefill 1x8 --decode 2x8` predicts separate prefill and decode pools (docs/racks.md)"
SAMPLING = (
    "sampling changes only the acceptance: give one that was measured with it, for example by "
    "`validate acceptance --temperature` (docs/observe.md)"
)
ASSUMED = "assumed to be on; `validate engine --watch LOG` reports a log that says that it is off"
NO_EFFECT = "it changes no predicted time: leave it out"
HOST = "--host-bandwidth GB/S, the rate at which the processor reads layers or experts on the host"
EARLY = (
    "drafts then stop early: give their mean length (drafted tokens / iterations, rounded) as --gamma, and "
    "the printed --tokens-per-iteration; `schedule --acceptance FILE` finds p-min from rates by confidence"
)
GRAPHS = (
    "the answer is for the sizes of CUDA graphs that the engine captures by default; "
    "`validate engine --watch LOG` compares your server with it"
)
TEXT_ONLY = "the answer is for requests of text, without images or audio"
FOREIGN_FLAGS = {
    GRAPHS: (
        "--cuda-graph-max-bs",
        "--cuda-graph-bs",
        "--cuda-graph-sizes",
        "--cudagraph-capture-sizes",
        "--max-cudagraph-capture-size",
    ),
    TEXT_ONLY: ("--limit-mm-per-prompt", "--language-model-only", "--no-mmproj"),
    EARLY: (
        "--spec-draft-p-min",
        "--draft-p-min",
        "--p-min",
        "--spec-draft-n-min",
        "--draft-min",
        "--draft-n-min",
    ),
    SAMPLING: ("--temperature", "--temp", "--top-p", "--top-k", "--min-p", "--rejection-sample-method"),
    ASSUMED: (
        "--async-scheduling",
        "--flash-attn",
        "-fa",
        "--enable-overlap-schedule",
        "--enable-chunked-prefill",
        "--cont-batching",
        "--compilation-config",
    ),
    NO_EFFECT: (
        "--trust-remote-code",
        "--host",
        "--port",
        "--api-key",
        "--served-model-name",
        "--alias",
        "--chat-template",
        "--jinja",
        "--reasoning-parser",
        "--tool-call-parser",
        "--enable-auto-tool-choice",
        "--disable-log-requests",
        "--mmap",
        "--no-mmap",
        "--mlock",
        "--metrics",
        "--seed",
        "--main-gpu",
        "--swap-space",
    ),
    HOST: ("--threads", "--threads-batch", "--numa"),
    "`schedule` finds the number of requests up to which a draft pays off": (
        "--speculative-disable-by-batch-size",
    ),
    "`traffic --gamma adaptive` uses draft lengths that follow the load": ("--speculative-adaptive",),
    "--attention-backend NAME, of target and draft": (
        "--speculative-draft-attention-backend",
        "--speculative-attention-mode",
    ),
    "--model NAME or a file": ("-hf", "--hf-repo"),
    "--hardware NAME:pcie5, the device in a server of that PCIe generation": ("--pcie", "--pcie-gen"),
    "--hardware NAME:nvlink, the device with its NVLink bridge": ("--nvlink",),
    "`traffic --max-num-batched-tokens N`, the tokens of a pass over prompts": (
        "--chunked-prefill-size",
        "--max-prefill-tokens",
        "--ubatch-size",
        "-ub",
        "--prefill-step-size",
    ),
    "--redundant-experts N and --moe-imbalance X": ("--enable-eplb", "--num-redundant-experts"),
    LENGTH: (
        "--spec-draft-n-max",
        "--draft-max",
        "--draft-n",
        "--draft-n-max",
        "--n-max",
        "--num-draft-tokens",
    ),
    "--tokens-per-iteration N, the accepted length with the bonus token": (
        "--accept-length",
        "--accept-len",
        "--acceptance-length",
        "--acceptance-len",
        "--mean-acceptance-length",
        "--spec-accept-length",
    ),
    "--acceptance-rate SHARE, accepted over drafted tokens": (
        "--accept-rate",
        "--acc-rate",
        "--draft-acceptance-rate",
    ),
    "--draft KIND and --gamma N": (
        "--mtp",
        "--use-mtp",
        "--speculative-config",
        "--spec-config",
        "--spec-type",
    ),
    "--draft NAME of the draft model": (
        "--speculative-model",
        "--speculative-draft-model-path",
        "--model-draft",
        "-md",
    ),
    "`tree --given STEPSxTOPKxTOKENS` predicts a tree of drafted tokens": (
        "--speculative-eagle-topk",
        "--speculative-num-draft-tokens",
        "--speculative-token-tree",
        "--steps",
        "--topk",
        "--eagle-topk",
    ),
    "--layer-split N, or --tp N for rows": ("--tensor-split", "-ts", "--split-mode", "-sm"),
    "--dp N, groups of data-parallel attention": ("--enable-dp-attention",),
    "--ep N": ("--enable-expert-parallel",),
    "--context TOKENS, the cached tokens of a sequence": ("--ctx-size", "--context-length", "--max-kv-size"),
    "--batch N, sequences that decode at once (`traffic`: --max-concurrency N)": (
        "--concurrency",
        "--parallel",
        "-np",
        "--num-requests",
        "--num-parallel",
        "--users",
        "--max-batch-size",
        "--max-concurrent-requests",
    ),
    "`traffic --request-rate R`, requests per second": ("--rps", "--qps"),
    "`traffic --input-len N --output-len N`": (
        "--isl",
        "--osl",
        "--input-tokens",
        "--output-tokens",
        "--prompt-len",
        "--random-input-len",
        "--random-output-len",
    ),
    "--tp N (llama.cpp: --layer-split N), or `advise --gpus N`, which compares layouts": (
        "--num-gpus",
        "--gpus",
    ),
    "--hardware NAME:24gb, the device with that memory": ("--vram",),
    "--power-limit W": ("--power", "--tdp", "-pl", "--pl"),
    "--attention-backend NAME": (
        "--attn-backend",
        "--decode-attention-backend",
        "--prefill-attention-backend",
    ),
    "--engine NAME": ("--backend",),
    "--max-model-len N": ("--max-seq-len",),
    "--draft ngram": ("--prompt-lookup", "--lookahead", "--spec-ngram-size-n"),
    "--memory-fraction SHARE": ("--free-gpu-memory-fraction",),
    "--kv-dtype FORMAT": ("--cache-type-k", "-ctk", "--cache-type-v", "-ctv", "--kv-bits"),
    "--weights FORMAT": ("--quant", "--bits"),
    "--cpu-moe N with --host-bandwidth GB/S": (
        "--n-cpu-moe",
        "-ncmoe",
        "--override-tensor",
        "-ot",
        "--cpu-offload-gb",
    ),
    "--gpu-layers N with --host-bandwidth GB/S": ("--n-gpu-layers", "-ngl", "--num-gpu", "--ngl"),
    "`traffic` models prefix caches: --prefix-len, --prefix-hits and --turns": (
        "--enable-prefix-caching",
        "--no-enable-prefix-caching",
        "--disable-radix-cache",
        "--cache-hit-rate",
    ),
    "`traffic --kv-offload host|c2c|nvme` asks for caches on other tiers": (
        "--enable-hierarchical-cache",
        "--kv-transfer-config",
        "--kv-offloading-size",
        "--lmcache",
    ),
    POOLS: ("--disaggregation", "--disaggregation-mode", "--disagg", "--pd"),
}
"""Flag or command of `perfmodel`, in words -> the foreign flags that it replaces."""


def instead_of(flag: str) -> str | None:
    """The flag or command of `perfmodel` that replaces a foreign flag, in words; None for any other flag."""
    return next((instead for instead, flags in FOREIGN_FLAGS.items() if flag in flags), None)
