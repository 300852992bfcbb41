#!/usr/bin/env bash
# Finds races between threads and blocks of the CUDA kernels, without a GPU: every CUDA thread is a thread of
# the host, two blocks run at once, under ThreadSanitizer (host_threads.cpp). Runs every operator; then again
# without block barriers, which must be reported.
#   tests/kernels/cuda/races.sh [BUILD]     BUILD (build/release) has the libraries; objects go to BUILD/races
# Ends with 1 if a race is found, 77 if there is no clang++ or no CUDA toolkit.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
build=${1:-build/release}
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
toolkit=$(dirname "$(dirname "$(readlink -f "$nvcc")")")/include
if ! command -v clang++ >/dev/null || [ ! -e "$toolkit/cuda_runtime.h" ]; then
  echo "no clang++ or no CUDA toolkit: races are not looked for"
  exit 77
fi
objects=$build/races
mkdir -p "$objects"
flags=(-std=c++20 -g1 -DFMT_SHARED -DPLUMBLINE_HOST_THREADS
  -DPLUMBLINE_KERNELS_ON_HOST='"tests/kernels/cuda/host_processor.hpp"' -I. -isystem "$toolkit"
  -Wno-everything)
watched=(-O1 -fsanitize=thread)

mapfile -t kernels < <(find kernels/cuda -name '*.cu')
plain=(kernels/cuda/attention/cudnn_{absent,attention,slices}.cpp
  kernels/cuda/backend/cuda_{backend,fp8,gemm,layers,model_ends,routing,unfused,vocabulary}.cpp
  kernels/cuda/device/error.cpp
  tests/kernels/cuda/host_runtime.cpp tests/kernels/cuda/host_shared_memory.cpp tests/kernels/cuda/races.cpp)
launcher=()
command -v ccache >/dev/null && launcher=(ccache)
compile() {  # compile SOURCE OPTION ...: beside others
  local source=$1
  shift
  while [ "$(jobs -rp | wc -l)" -ge "${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}" ]; do sleep 0.1; done
  "${launcher[@]}" clang++ "${flags[@]}" "$@" -x c++ -c "$source" -o "$objects/$(basename "$source").o" &
  compilers+=($!)
}
compilers=()
for source in "${kernels[@]}"; do compile "$source" "${watched[@]}" -femulated-tls; done
compile tests/kernels/cuda/host_threads.cpp "${watched[@]}"
for source in "${plain[@]}"; do compile "$source" -O1; done
for process in "${compilers[@]}"; do wait "$process"; done
sources=("${kernels[@]}" "${plain[@]}" tests/kernels/cuda/host_threads.cpp)
linked=()
for source in "${sources[@]}"; do linked+=("$objects/$(basename "$source").o"); done
clang++ -fsanitize=thread "${linked[@]}" "$build/bench/libplumbline_operator_cases.a" \
  "$build/kernels/libplumbline_kernels.a" "$build/core/libplumbline_core.a" -lyaml-cpp -ldnnl -lfmt -lgomp \
  -o "$objects/races"

export TSAN_OPTIONS="halt_on_error=0 report_thread_leaks=0 ${TSAN_OPTIONS:-}"
"$objects/races" | tail -1
if PLUMBLINE_WITHOUT_BARRIERS=1 TSAN_OPTIONS="$TSAN_OPTIONS halt_on_error=1" \
  "$objects/races" >"$objects/without" 2>&1 ||
  ! grep -q "data race" "$objects/without"; then
  echo "found no race without barriers: what looks on is blind" >&2
  exit 1
fi
echo "no races; without barriers they are seen"
