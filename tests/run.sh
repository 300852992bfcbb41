#!/usr/bin/env bash
# Sets up, builds and runs all tests. Tests that need a GPU or published tables that are not here are skipped
# with a message.
#   ./tests/run.sh [ctest options]
[ -n "${BASH_VERSION:-}" ] || { echo "run.sh: found another shell, expected bash; start it as tests/run.sh" >&2; exit 2; }
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
source bench/setup.sh
plumbline_script tests/run.sh "$@"

plumbline_setup "${plumbline_packages[@]}" "${plumbline_check_packages[@]}"
plumbline_build release
ctest --preset release -j "$(nproc)" "$@"
