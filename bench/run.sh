#!/usr/bin/env bash
# Sets up, builds, calibrates this machine once, runs the demo matrix and prints the table. Without a matrix
# given, it then finds the batch sizes of a distillation that fit their memory. After the build that takes 5
# minutes at most.
#   ./bench/run.sh [MATRIX.yaml]      default: bench/matrices/demo.yaml
[ -n "${BASH_VERSION:-}" ] || { echo "run.sh: found another shell, expected bash; start it as bench/run.sh" >&2; exit 2; }
set -euo pipefail
called_from=$PWD
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
source bench/setup.sh
plumbline_script bench/run.sh "$@"

[ $# -le 1 ] || plumbline_refuse "found $# arguments, expected one matrix at most; run others by plumbline matrix"
matrix=${1:-bench/matrices/demo.yaml}
[ $# -eq 0 ] || [ ! -f "$called_from/$matrix" ] || matrix=$called_from/$matrix
[ -f "$matrix" ] || plumbline_refuse "$matrix: found no such file, expected a matrix; bench/matrices/ has some"
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
