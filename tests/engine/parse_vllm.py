"""Run by the engine's Python: vLLM's own argument parser and configuration classes take our lines, or say why
not.

Models are replaced by tiny folders of the right kind (a configuration is all that is read): the check is of
the flags.
"""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

HEADS = ("eagle", "eagle3", "dflash", "dspark", "mtp")
MTP_TARGET = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "num_nextn_predict_layers": 1,
    "vocab_size": 320,
    "hidden_size": 256,
    "intermediate_size": 512,
    "moe_intermediate_size": 128,
    "num_hidden_layers": 2,
    "first_k_dense_replace": 1,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "kv_lora_rank": 64,
    "q_lora_rank": None,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 32,
    "v_head_dim": 32,
    "max_position_embeddings": 8192,
    "torch_dtype": "bfloat16",
}
"""Configuration of a tiny target with an MTP module."""


def main(engine: Path) -> int:
    import vllm
    from vllm.config import ParallelConfig
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    models = engine / "models"
    heads(models)
    for name, export in json.loads((engine / "lines.json").read_text()).items():
        if not export["vllm_line"]:
            continue
        line = shlex.split(export["vllm_line"])
        words = line[line.index("serve") + 1 :]  # a variable of the environment may stand first
        drafts = "--speculative-config" in words
        config = json.loads(words[-1]) if drafts else {"method": None}
        parser = make_arg_parser(FlexibleArgumentParser())
        args = parser.parse_args(tiny_words(words, config, models))
        if not drafts or name.startswith("question"):  # priced for other models than the tiny ones
            print(f"vllm takes: {name}")
            continue
        args.model = args.model_tag or args.model
        engine_args = AsyncEngineArgs.from_cli_args(args)
        model = engine_args.create_model_config()
        parallel = ParallelConfig(
            tensor_parallel_size=args.tensor_parallel_size, distributed_executor_backend="mp"
        )
        check(name, config, engine_args.create_speculative_config(model, parallel))
        print(f"vllm takes: {name}")
    print(f"vllm {vllm.__version__}")
    return 0


def tiny_words(words: list[str], config: dict[str, Any], models: Path) -> list[str]:
    """The words of a line with tiny models in place of its target and draft, which `config` names too."""
    target = str(models / ("mtp" if config["method"] == "mtp" else "target"))
    if "model" in config:
        config["model"] = str(models / (config["method"] if config["method"] in HEADS else "draft"))
    if config["method"] is None:
        return [target, *words[1:]]
    return [target, *words[1:-1], json.dumps(config)]


def check(name: str, config: dict[str, object], understood_config) -> None:  # type: ignore[no-untyped-def]
    """What the engine understood is what was said."""
    for key, value in config.items():
        if key in ("model", "method"):
            continue
        understood = getattr(understood_config, key)
        if key.endswith("per_batch_size"):
            understood = [list(row) for row in understood]
        if understood != value:
            raise SystemExit(f"{name}: {key} is {understood!r}, said {value!r}")
    if understood_config.method != config["method"]:
        raise SystemExit(f"{name}: method is {understood_config.method}")


def heads(models: Path) -> None:
    """Configurations of heads of each kind and of a target with an MTP module."""
    base = json.loads((models / "target" / "config.json").read_text())
    block = base | {
        "model_type": "qwen3",
        "num_hidden_layers": 2,
        "block_size": 8,
        "target_layer_ids": [0, 1],
    }
    eagle3 = {"num_hidden_layers": 1, "draft_vocab_size": 320}
    kinds = {
        "eagle": base | {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 1},
        "eagle3": base | eagle3 | {"architectures": ["LlamaForCausalLMEagle3"]},
        "dflash": block | {"architectures": ["DFlashDraftModel"]},
        "dspark": block | {"architectures": ["Qwen3DSparkModel"], "markov_rank": 16},
        "mtp": MTP_TARGET,
    }
    for name, config in kinds.items():
        (models / name).mkdir(exist_ok=True)
        (models / name / "config.json").write_text(json.dumps(config))
        for file in ("tokenizer.json", "tokenizer_config.json"):
            (models / name / file).write_text((models / "target" / file).read_text())


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
