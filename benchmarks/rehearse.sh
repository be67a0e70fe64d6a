#!/usr/bin/env bash
# Every stage of gpu.sh as a bare GPU machine runs them: the tree without .git, the package not installed, each call with
# an empty $OUT of its own, what earlier ones left brought back to results/. Only the device is missing: a CPU stands in.
#
#   bash benchmarks/rehearse.sh PYTHON      # `make rehearse` makes the environment first
#
# TESTS are pytest's arguments of the first stage: all the decoder's tests unless given.
set -euo pipefail
if [ $# -ne 1 ]; then sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; fi
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
mkdir "$tree"
(cd "$root" && git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -cf - -T -) |
    tar -xf - -C "$tree"
export PYTHON=$1 PERFMODEL_COMMIT
PERFMODEL_COMMIT=$(git -C "$root" rev-parse HEAD)
machine=rehearsal-1 device=h100-sxm-80gb
cat > "$work/plan.yaml" <<PLAN
schema_version: 1
name: rehearsal
title: The stages of gpu.sh with next to no work
device: cpu
hardware: $device
threads: 1
grid:
  - {target: tiny, draft_kv: ["streamingllm:16"], batch: [1, 2], context: [64, 128, 192, 256], gamma: [2], alpha: 0.8}
protocol: {iterations: 1}
micro: {rows: [1, 4, 64], max_bytes: 1048576}
PLAN
cd "$tree"

call() { # one call to the machine: nothing but the tree goes there, $OUT comes back
    echo "== gpu.sh $1" >&2
    export OUT=$work/out
    rm -rf "$OUT"
    bash benchmarks/gpu.sh "$1" "$machine" "$device" "${@:2}"
    find "$OUT" -name '*.journal' | grep . && { echo "a journal was left unfinished" >&2; exit 1; }
    if [ "$(find "$OUT" -type f | wc -l)" -gt 8 ]; then echo "more than 8 files would come back" >&2; exit 1; fi
    if [ -n "$(find "$OUT" -size +16M)" ]; then echo "a file of more than 16 MiB would not come back" >&2; exit 1; fi
    cp -r "$OUT/." results/
}

small="--device cpu --batch 1 --context 64 --dtype fp32 --layers 1"
TESTS=${TESTS-tests/validate/test_cuda.py tests/validate/decoder} CEILINGS=$small \
    SWEEP="$small --queries 1 --repeats 1" ATTENTION="$small --queries 1,3 --repeats 2" \
    TRITON_INTERPRET=1 call check
call kernels "$work/plan.yaml"
MINUTES=5 call passes "$work/plan.yaml"
ON=cpu CONTEXTS=320 DOCUMENTS=2 call acceptance
OUT=results bash benchmarks/gpu.sh page "$machine" "$device"
grep -q "$machine/.*rehearsal" "results/$machine/report.md"
[ -f "results/$machine/$device.stack.yaml" ]
echo "rehearsed: every stage ran" >&2
