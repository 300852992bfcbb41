#!/usr/bin/env bash
# Everything that needs a GPU, in parts for a quarter of an hour on one card (tests/gpu/steps.py lists them).
#   tests/gpu.sh [--part N]... [--out DIR]  runs parts 1 to 3, or those named, with the packed or local build
#   tests/gpu.sh --pack                     makes build/gpu-bundle.tar.xz with every small library, for a GPU
#                                           machine without packages or network
#   tests/gpu.sh --dry-run [--part N]...    without a GPU: all before the first kernel, from the packed
#                                           bundle, in an empty root; prints each part's estimated time
# On the GPU machine, which needs Python and the C library, in calls that may end before the slot does:
#   python3 tests/gpu/bundle.py unpack build/gpu-bundle.tar.xz /tmp
#   /tmp/gpu-bundle/gpu-slot --start --out RESULTS [--part N]... [--seconds S]
#   /tmp/gpu-bundle/gpu-slot --wait SECONDS --out RESULTS --to FOLDER
# Steps that passed for the same sources (passed.json of the results, packed from build/) are skipped.
# cuBLASLt, cuDNN, NCCL and CUPTI are looked for over there. --pack builds for the architecture in
# PLUMBLINE_GPU_ARCHITECTURE (90-real), in the folder PLUMBLINE_GPU_BUILD (build/gpu).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

source bench/setup.sh
build=${PLUMBLINE_GPU_BUILD:-build/gpu}
packed=build/gpu-bundle.tar.xz
passed=build/passed.json  # from the results of earlier slots: steps that need not run again
programs=(tests/kernels/cuda/cuda_operators_test
  bench/measure/micro/micro_cuda_{facts,operators,attention})

hash_sources() {
  git ls-files -z bench core kernels schedules analysis tests/kernels tests/gpu | xargs -0 sha256sum | sha256sum
}

build_programs() {  # build_programs [CMAKE OPTION ...]
  plumbline_cudnn_frontend
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release "$@" >/dev/null
  cmake --build "$build" --target plumbline plumbline_cuda_program "${programs[@]##*/}"
}

pack() {
  build_programs -DCMAKE_CUDA_ARCHITECTURES="${PLUMBLINE_GPU_ARCHITECTURE:-90-real}" \
    -DCMAKE_EXE_LINKER_FLAGS=-s
  bench/bundle.sh build/gpu-bundle --build "$build" "${programs[@]/#/--program=}"
  mkdir build/gpu-bundle/gpu
  cp tests/gpu/*.py build/gpu-bundle/gpu/
  local family
  for family in tests/golden/families/*/; do
    install -D -m 644 -t "build/gpu-bundle/gpu/families/$(basename "$family")" "$family/config.json" \
      "$family/run.yaml"
  done
  cp tests/gpu/start.sh build/gpu-bundle/gpu-slot
  hash_sources >build/gpu-bundle/sources
  [ ! -e "$passed" ] || cp "$passed" build/gpu-bundle/
  # Every program contains the kernels. A dictionary as large as all of them finds the copies: 21 MiB instead
  # of 48.
  tar -C build -cf - gpu-bundle | xz -T1 --lzma2=preset=4,dict=192MiB >"$packed"
  local bytes room
  bytes=$(stat -c %s "$packed")
  room=$(python3 tests/gpu/bundle.py room)
  echo "$packed: $((bytes / 1048576)) of $((room / 1048576)) MiB that a GPU machine is sent besides the" \
    "tree" >&2
  if [ "$bytes" -gt "$room" ]; then
    echo "$packed: found $bytes bytes, expected at most $room; leave programs out or make the tree" \
      "smaller" >&2
    exit 1
  fi
}

out='' dry='' arguments=()
while [ $# -gt 0 ]; do
  case $1 in
    --pack) pack && exit ;;
    --dry-run) dry=yes && shift ;;
    --part) arguments+=(--part "${2:?}") && shift 2 ;;
    --out) out=${2:?} && shift 2 ;;
    *) awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "${BASH_SOURCE[0]}" >&2 && exit 2 ;;
  esac
done

if [ -n "$dry" ]; then
  [ -e "$packed" ] || pack
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  mkdir "$folder/out"
  python3 tests/gpu/bundle.py unpack "$packed" "$folder"
  tests/gpu/empty_root.sh "$folder/gpu-bundle" "$folder/out" /bundle/gpu-slot --out /out --dry-run \
    "${arguments[@]}"
  exit
fi

if ! gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -1) || [ -z "$gpu" ]; then
  echo "no CUDA device: nothing was tested"
  exit 0
fi
out=${out:-results/recorded/$(tr '[:upper:] ' '[:lower:]-' <<<"$gpu")}
if [ -e "$packed" ]; then
  python3 tests/gpu/bundle.py unpack "$packed" build
  build/gpu-bundle/gpu-slot --out "$out" "${arguments[@]}"
  exit
fi
build_programs
mkdir -p "$build/slot/bin"
hash_sources >"$build/slot/sources"
ln -sf "$PWD/$build/bench/plumbline" "$build/slot/"
for program in "${programs[@]}"; do ln -sf "$PWD/$build/$program" "$build/slot/bin/"; done
python3 -u tests/gpu/slot.py "$build/slot" "$out" "${arguments[@]}"
