#!/usr/bin/env bash
# Evidence on one GPU, a stage a run of less than ten minutes; docs/gpu-todo.md says what each is for and where it goes.
#
#   bash benchmarks/gpu.sh check    MACHINE DEVICE           ceilings, the decisive CUDA tests, the sweep, attention by place
#   bash benchmarks/gpu.sh kernels  MACHINE DEVICE [PLAN]    microbenchmarks, a calibration from them alone
#   bash benchmarks/gpu.sh passes   MACHINE DEVICE PLAN...   whole passes of plans, predicted beside measured
#   bash benchmarks/gpu.sh acceptance MACHINE DEVICE         acceptance of the byte-level model that ships
#   bash benchmarks/gpu.sh page     MACHINE DEVICE           stack factors by halves, the machine's page
#
# MACHINE is a label such as h200-1, DEVICE a device by name or path. Everything is written under $OUT (default: results).
# MINUTES=N stops the microbenchmarks, or all plans of `passes` together, after N minutes.
# PERFMODEL_COMMIT=HASH says which commit this is without a .git.
# Of `check`, TESTS are pytest's arguments, CEILINGS, SWEEP and ATTENTION those of attention.py; ON, CONTEXTS, DOCUMENTS: see
# `acceptance`. The sweep's tuning.json is used from then on, in this call and in later ones that find it in results/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [ $# -lt 3 ]; then sed -n '2,14s/^# \{0,1\}//p' "$0" >&2; exit 2; fi
stage=$1 machine=$2 device=$3
shift 3
out=${OUT:-results}
python=${PYTHON:-python3}
export PYTHONUNBUFFERED=1 PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
if [ -z "${PERFMODEL_COMMIT:-}" ] && [ ! -e .git ]; then
    echo "PERFMODEL_COMMIT: must be given where the tree travels without .git: PERFMODEL_COMMIT=\$(git rev-parse HEAD)" >&2
    exit 2
fi
perfmodel() { "$python" -m perfmodel "$@"; }
mkdir -p "$out/$machine"

# The calibration from kernels: of this call, of an earlier one brought back to results/, or the one that ships.
name=$(basename "${device%.yaml}").micro.yaml
calibration=
for folder in "$out/$machine" "results/$machine" hardware/calibrations; do
    if [ -z "$calibration" ] && [ -f "$folder/$name" ]; then calibration=$folder/$name; fi
done

for folder in "$out/$machine" "results/$machine"; do
    if [ -z "${PERFMODEL_TUNING:-}" ] && [ -f "$folder/tuning.json" ]; then
        export PERFMODEL_TUNING=$folder/tuning.json
    fi
done
attention() { "$python" benchmarks/attention.py --hardware "$device" "$@"; }

case $stage in
check)
    status=0 # the rest is worth knowing where a test fails, too
    attention ${CEILINGS---batch 1 --context 16k} --implementations "" --json "$out/$machine/ceilings.json"
    env -u TRITON_INTERPRET "$python" -m pytest ${TESTS-tests/validate/test_cuda.py -m cuda -k lossless\ or\ captured\ or\ whole_point} \
        -q -W default -p no:cacheprovider || status=$?
    attention --sweep ${SWEEP---batch 24,4 --context 16k,128k --queries 1,4,8 --repeats 7} \
        --json "$out/$machine/sweep.json" --best "$out/$machine/tuning.json"
    PERFMODEL_TUNING=$out/$machine/tuning.json attention \
        ${ATTENTION---batch 24,8,4 --context 16k,64k,128k --queries 1,2,4,8 --implementations triton,triton-unsplit,sdpa,flash,flash-unsplit,cudnn} \
        --json "$out/$machine/attention.json"
    exit "$status"
    ;;
kernels)
    perfmodel validate microbench "${1:-gpu-8b}" --machine "$machine" --hardware "$device" --results "$out" ${MINUTES:+--minutes "$MINUTES"}
    perfmodel validate calibrate --from-microbench "$out/$machine" --hardware "$device" --out "$out/$machine/$name"
    ;;
passes)
    status=0
    for plan in "$@"; do # a plan that fails is no reason to leave out the next
        left=
        if [ -n "${MINUTES:-}" ]; then
            left=$(awk -v minutes="$MINUTES" -v passed="$SECONDS" 'BEGIN {printf "%.2f", minutes - passed / 60}')
            case $left in -*|0.0*) echo "no time is left for $plan" >&2; continue ;; esac
        fi
        perfmodel validate measure "$plan" --machine "$machine" --hardware "$device" --results "$out" \
            ${left:+--minutes "$left"} ${calibration:+--calibration "$calibration"} || status=$?
    done
    exit "$status"
    ;;
acceptance)
    perfmodel validate acceptance --device "${ON:-cuda}" --context "${CONTEXTS:-1k,4k,8064}" --documents "${DOCUMENTS:-32}" \
        $(printf -- '--draft-kv %s ' {streamingllm,snapkv,quest}:{128,512,2048}) --out "$out/$machine/acceptance.json"
    ;;
page)
    perfmodel validate calibrate --from-microbench "$out/$machine" --hardware "$device" --stack "$out/$machine" \
        --out "$out/$machine/${name%.micro.yaml}.stack.yaml"
    perfmodel validate report "$machine" --results "$out" --hardware "$device" \
        ${calibration:+--calibration "$calibration"}
    ;;
*)
    echo "stage: must be check, kernels, passes, acceptance or page, given $stage" >&2
    exit 2
    ;;
esac
