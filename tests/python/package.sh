#!/usr/bin/env bash
# Installs the package into an empty virtual environment and tests it there: package.sh PROGRAM
# Exit code 77, skipped, without a package index, and without PLUMBLINE_TEST_PYTHON=1: it compiles the
# prediction libraries a second time.
set -euo pipefail
[ -n "${PLUMBLINE_TEST_PYTHON:-}" ] ||
  { echo "skipped: PLUMBLINE_TEST_PYTHON=1 tests the Python package" >&2; exit 77; }
program=$(realpath "$1")
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/venv" || exit 77
PATH="$scratch/venv/bin:$PATH"
export PIP_DISABLE_PIP_VERSION_CHECK=1
pip install --quiet 'scikit-build-core>=0.10' 'pybind11>=2.10' pandas pandas-stubs matplotlib mypy || exit 77
pip install --quiet --no-build-isolation "$root"
cd "$scratch"
python "$root/tests/python/package_test.py" "$program"
python "$root/tests/python/same_predictions.py" "$program" 1100
cp -r "$root/python/notebooks" .
mkdir results && cp -r "$root/results/recorded" results/
MPLBACKEND=Agg python "$root/tests/python/notebooks.py" notebooks/*.ipynb "$root/README.md"
mypy --strict -p plumbline
mypy --strict "$root/tests/python/typed_use.py"
