#!/usr/bin/env bash
# Evidence on one GPU, a stage a run of less than ten minutes; docs/gpu-todo.md says what each is for and where it goes.
#
#   bash benchmarks/gpu.sh check    MACHINE DEVICE           the CUDA tests, attention kernels against peak bandwidth
#   bash benchmarks/gpu.sh kernels  MACHINE DEVICE [PLAN]    microbenchmarks, a calibration from them alone
#   bash benchmarks/gpu.sh passes   MACHINE DEVICE PLAN...   whole passes of plans, predicted beside measured
#   bash benchmarks/gpu.sh model    MACHINE DEVICE [MINUTES] a larger byte-level model trained, its acceptance measured
#   bash benchmarks/gpu.sh page     MACHINE DEVICE           stack factors by halves, the machine's page
#
# MACHINE is a label such as h200-1, DEVICE a device by name or path. Everything is written under $OUT (default: results).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [ $# -lt 3 ]; then sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; fi
stage=$1 machine=$2 device=$3
shift 3
out=${OUT:-results}
python=${PYTHON:-python3}
export PYTHONUNBUFFERED=1
perfmodel() { "$python" -m perfmodel "$@"; }
calibration=$out/$machine/$device.micro.yaml
mkdir -p "$out/$machine"

case $stage in
check)
    "$python" -m pytest tests/decoder -m cuda -q
    "$python" benchmarks/attention.py --hardware "$device" --json > "$out/$machine/attention.json"
    "$python" benchmarks/attention.py --hardware "$device"
    ;;
kernels)
    perfmodel validate microbench "${1:-gpu-8b}" --machine "$machine" --hardware "$device" --results "$out"
    perfmodel validate calibrate --from-microbench "$out/$machine" --hardware "$device" --out "$calibration"
    ;;
passes)
    [ -f "$calibration" ] || calibration=hardware/calibrations/$device.micro.yaml
    for plan in "$@"; do
        perfmodel validate measure "$plan" --machine "$machine" --hardware "$device" --results "$out" \
            --calibration "$calibration"
    done
    ;;
model)
    "$python" -m perfmodel.validate.lm.train --shape large --device cuda --minutes "${1:-7}" --out "$out/$machine/stdlib-large"
    perfmodel validate acceptance --checkpoint "$out/$machine/stdlib-large" --device cuda --context 1k,4k \
        --draft-kv streamingllm:64 --draft-kv streamingllm:256 --draft-kv snapkv:64 --draft-kv snapkv:256 \
        --draft-kv quest:256 --out "$out/$machine/acceptance.yaml"
    ;;
page)
    perfmodel validate calibrate --from-microbench "$out/$machine" --hardware "$device" --stack "$out/$machine" \
        --out "$out/$machine/$device.stack.yaml"
    perfmodel validate report "$machine" --results "$out" --hardware "$device" --calibration "$calibration"
    ;;
*)
    echo "stage: must be check, kernels, passes, model or page, given $stage" >&2
    exit 2
    ;;
esac
