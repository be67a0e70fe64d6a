"""One example for each verb, printed below its ``--help``; a test runs all but those that measure."""

EIGHT = "--model llama-3.1-8b --hardware h100"
MANY = f"{EIGHT} --batch 1..256x2 --context 4k..128kx2"
EXAMPLES = {
    "whatif": f"{EIGHT} --batch 16 --context 32k",
    "sweep": f"{MANY} --alpha 0.8 --output grid.csv",
    "explore": "--model llama-3.1-8b --hardware h100 --output map.html",
    "ops": f"{EIGHT} --batch 16 --context 32k --gamma 3 --pass verify",
    "inflection": f"{EIGHT} --batch 16 --gamma 3 --alpha 0.8",
    "inverse": f"{EIGHT} --batch 16 --context 32k --alpha 0.8 --speedup 1.5",
    "advise": f"{EIGHT} --context 32k",
    "schedule": f"{EIGHT} --context 8k --draft ngram --rate 0.4x3",
    "tree": f"{EIGHT} --batch 1 --context 32k --rates 0.7,0.1,0.05",
    "hierarchy": f"{EIGHT} --batch 1 --context 64k --draft-kv streamingllm:2k --small llama-3.2-1b "
    "--small-rate 0.7 "
    "--alpha 0.9",
    "moe": "--model qwen3-30b-a3b --hardware h100 --context 4k --gamma 3 --draft mtp --alpha 0.8",
    "traffic": "--model gpt-oss-120b --hardware h200 --input-len 8k --output-len 1k --request-rate 1,2 "
    "--draft eagle:features=3 --gamma 0,3 --alpha 0.6 --slo ttft:2000,tpot:30",
    "compare": f"{EIGHT} --context 32k --gamma 3 --alpha 0.8",
    "plot roofline": f"{EIGHT} --batch 8 --context 32k --gamma 3 --output roofline.svg",
    "plot surface": f"{EIGHT} --alpha 0.8 --output surface.svg",
    "plot ratios": f"{EIGHT} --gamma 3 --output ratios.svg",
    "plot breakdown": f"{EIGHT} --batch 1,32 --context 32k --alpha 0.8 --output breakdown.svg",
    "plot gamma": f"{EIGHT} --context 4k,64k --alpha 0.8 --output lengths.svg",
    "plot pareto": f"{EIGHT} --context 32k --output front.svg",
    "plot traffic": "--model gpt-oss-120b --hardware h200 --input-len 8k --output-len 1k "
    "--request-rate 0.1,1.9 "
    "--draft eagle:features=3 --gamma 3 --alpha 0.6 --slo tpot:30 --output traffic.svg",
    "plot residuals": "--set magicdec --output residuals.svg",
    "gpus list": "",
    "gpus show": "h100",
    "gpus check": "h100",
    "models list": "",
    "models show": "llama-3.1-8b",
    "models check": "llama-3.1-8b",
    "kv list": "",
    "kv show": "streamingllm:512",
    "kv check": "streamingllm:512",
    "calibrations list": "",
    "calibrations show": "h100-sxm-80gb.vllm",
    "calibrations check": "h100-sxm-80gb.vllm",
    "calibrations import": "aiconfigurator aiconfigurator_core.whl --gpu h200 --engine vllm --out mine.yaml",
    "validate generate": "--draft-kv streamingllm:256 --batch 1 --context 1k --new-tokens 32",
    "validate measure": "cpu-quick --machine cpu-1",
    "validate microbench": "cpu-quick --machine cpu-1",
    "validate run": "cpu-quick",
    "validate finish": "results/local-1/20260101T000000Z-cpu-quick.journal",
    "validate report": "cpu-1",
    "validate acceptance": "--draft-kv streamingllm:256 --context 1k --out acceptance.json",
    "validate engine": "--model llama-3.1-8b --hardware h100 --draft eagle --plan",
    "validate compare": "--held-out --set magicdec --row 3c-13",
    "validate calibrate": "a100-sxm-80gb.magicdec",
    "validate check": "--results results --max-error 20%",
    "validate accuracy": "",
    "validate history": "",
    "validate plans": "",
}
"""The words after ``perfmodel`` -> the rest of a command line."""
