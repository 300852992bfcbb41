#!/usr/bin/env bash
# Everything that needs a GPU, in one command on a machine with one: the tests under ctest's label "gpu" and the CUDA
# micro-benchmarks; what they said is written below results/recorded/<gpu>/. Without a GPU it says so and ends with 0.
#   tests/gpu.sh [OUT_DIR]         builds here, or takes build/gpu-bundle where there is one
#   tests/gpu.sh --pack            makes build/gpu-bundle on a machine with a CUDA toolkit (bench/bundle.sh), for a GPU
#                                  machine without packages or network. CUDA's own libraries are taken from there.
#   SKIP_SANITIZER=1               leaves out compute-sanitizer, the slowest part
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

source bench/setup.sh
bundle=build/gpu-bundle
build=build/gpu
programs=(tests/kernels/cuda/cuda_operators_test bench/micro/micro_cuda_operators
  bench/micro/micro_cuda_attention bench/micro/micro_cuda_collectives)

if [ "${1:-}" = --pack ]; then
  set -e
  plumbline_cudnn_frontend
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CUDA_ARCHITECTURES="80-real;90" >/dev/null
  cmake --build "$build" --target plumbline plumbline_cuda_program "${programs[@]##*/}"
  exec bench/bundle.sh "$bundle" --build "$build" "${programs[@]/#/--program=}"
fi

if ! command -v nvidia-smi >/dev/null || ! gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -1); then
  echo "no CUDA device: nothing was tested"
  exit 0
fi
name=$(tr '[:upper:] ' '[:lower:]-' <<<"$gpu")
out=${1:-results/recorded/$name}
mkdir -p "$out"
failed=()

# step TITLE COMMAND...: runs it with its output in a log, notes its failure, and continues.
step() {
  local title=$1 log
  shift
  log=$out/$(tr ' ' '-' <<<"$title").log
  local start=$SECONDS
  if "$@" >"$log" 2>&1; then
    echo "ok      $title ($((SECONDS - start)) s)"
  else
    echo "FAILED  $title ($((SECONDS - start)) s): $log"
    tail -15 "$log"
    failed+=("$title")
  fi
}

{
  echo "# What tests/gpu.sh found"
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.max.memory --format=csv
  nvcc --version | tail -2
  git log -1 --format='commit %H' 2>/dev/null
} >"$out/machine.txt" 2>&1

if [ -d "$bundle" ]; then
  host=''
  for library in libcublasLt.so.13 libcudnn.so.9; do
    found=$(find /usr/local /opt /usr/lib -name "$library" 2>/dev/null | head -1)
    host+=:$(dirname "${found:-/usr/local/cuda/lib64/x}")
  done
  export LD_LIBRARY_PATH=$PWD/$bundle/lib$host:${LD_LIBRARY_PATH:-}
  export OPAL_PREFIX=$PWD/$bundle PMIX_PREFIX=$PWD/$bundle/pmix PATH=$PWD/$bundle/bin:$PATH
  bin=$bundle/bin
  plumbline=$bundle/plumbline
else
  plumbline_cudnn_frontend
  step "configure" cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release
  [ ${#failed[@]} -eq 0 ] || exit 1
  step "build" cmake --build "$build"
  [ ${#failed[@]} -eq 0 ] || exit 1
  bin=$build/bin
  plumbline=$build/bench/plumbline
  mkdir -p "$bin"
  for program in "${programs[@]}"; do ln -sf "$PWD/$build/$program" "$bin/"; done
fi

tests=$bin/cuda_operators_test
step "operators" "$tests"
step "operators again" env PLUMBLINE_TEST_SEED=1 "$tests"
if [ -z "${SKIP_SANITIZER:-}" ] && command -v compute-sanitizer >/dev/null; then
  quick='Attention.F*:AttentionDropout.F*:Dropout.*:Norms.*:Embedding.*:CrossEntropy.L*:VocabularyParallel.*'
  quick+=':Activations.*:Rope.*:Optimizer.*:Fp8.*'
  step "memcheck" timeout 240 compute-sanitizer --tool memcheck --error-exitcode 9 "$tests" --gtest_filter="$quick"
  step "racecheck" timeout 240 compute-sanitizer --tool racecheck --error-exitcode 9 "$tests" \
    --gtest_filter='Attention.F*:AttentionDropout.F*:Norms.F*:Embedding.*:Fp8.*'
fi
step "micro" "$bin/micro_cuda_operators"
grep '^{' "$out/micro.log" >"$out/operators.jsonl" 2>/dev/null  # without the progress of the search
step "attention" "$bin/micro_cuda_attention"  # cuDNN's kernels and the project's own
# A rank per GPU; several on one where there is but one: then only the results are of interest.
gpus=$(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l)
step "collectives" "$bin/micro_cuda_collectives" $((gpus > 1 ? gpus : 2))
# Device memory that a process uses besides tensors, into a profile of this accelerator.
step "device memory" "$plumbline" calibrate --backend cuda --out "$out/profile.json"
# Several ranks on the one GPU through NCCL: right results, the watchdog, the memory budget.
step "ranks" tests/gpu_ranks.py "$plumbline" "$out/ranks.jsonl"
# The tests of other folders under the label.
[ -d "$bundle" ] || step "all gpu tests" ctest --test-dir "$build" -L gpu --output-on-failure --no-tests=error

python3 - "$out/profile.json" "$out/ranks.jsonl" <<'PY' || true
import json, os, sys
if os.path.exists(sys.argv[1]):
    memory = json.load(open(sys.argv[1]))["device_memory"]
    print("device memory: " + ", ".join(f"{key[:-6]} {memory[key] / 2**20:.0f} MiB" for key in memory if key.endswith("_bytes")))
for line in open(sys.argv[2]) if os.path.exists(sys.argv[2]) else []:
    row = json.loads(line)
    if row["check"].startswith("device memory"):
        print(f'{row["check"]}: {row["total_bytes"] / 2**20:.0f} MiB, predicted {row["predicted_bytes"] / 2**20:.0f} MiB')
PY

echo
column -t -s, "$out/machine.txt" | head -4
python3 - "$out/operators.jsonl" <<'PY' || true
import json, sys
for line in open(sys.argv[1]):
    row = json.loads(line)
    if "device" in row:
        print(f'{row["device"]}: copy {row["copy_gb_per_s"]} GB/s, best gemm {row["best_gemm_tflops"]} TFLOP/s, '
              f'in FP8 {row["best_fp8_gemm_tflops"]}')
    elif "gb_per_s" in row and not row.get("tflops"):
        print(f'{row["operator"]:<28} {row["type"]:<8} {row["gb_per_s"]:>8} GB/s {row["share_of_copy"]:>6.0%} of copy')
    else:
        searched = row.get("share_of_exhaustive")
        print(f'{row["operator"]:<28} {row["type"]:<8} {row["tflops"]:>8} TFLOP/s {row["share_of_best_gemm"]:>6.0%} of best'
              + ("" if searched is None else f', {searched:.1%} of the exhaustive search'
                 + ("" if row["exhaustive"] else f' (first {row["configurations_timed"]} configurations)')))
PY
[ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}"; exit 1; }
