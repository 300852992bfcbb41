#!/usr/bin/env bash
# Sets up, builds, calibrates this machine once, runs the demo matrix and prints the table. Without a matrix
# given, it then finds the batch sizes of a distillation that fit their memory. After the build that takes 5
# minutes at most.
#   ./bench/run.sh [MATRIX.yaml]      default: bench/matrices/demo.yaml
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source bench/setup.sh

matrix=${1:-bench/matrices/demo.yaml}
out=results/local/$(basename "${matrix%.yaml}")
profile=results/local/profile.json

plumbline_setup "${plumbline_packages[@]}"
plumbline_build release plumbline
plumbline=build/release/bench/plumbline
mkdir -p results/local
[ -f "$profile" ] || "$plumbline" calibrate --out "$profile"
"$plumbline" matrix "$matrix" --hardware "$profile" --out "$out"
[ $# -gt 0 ] ||
  "$plumbline" oom bench/matrices/abeja_oom_small.yaml --hardware "$profile" \
    --out results/local/abeja_oom_small
