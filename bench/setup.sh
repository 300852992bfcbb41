#!/usr/bin/env bash
# Installs what plumbline builds with, where it is missing. Sourced by run.sh and tests/run.sh; needs no network when
# everything is there. On a system without apt it prints the list and goes on.
# libdnnl-dev finds its OpenCL only with ocl-icd-opencl-dev, which Debian merely recommends with it.
plumbline_packages=(
  g++ cmake ninja-build ccache
  libfmt-dev nlohmann-json3-dev libyaml-cpp-dev libcli11-dev
  libdnnl-dev ocl-icd-opencl-dev libopenmpi-dev openmpi-bin librandom123-dev libprotozero-dev
  libgtest-dev libgmock-dev libbenchmark-dev librapidcheck-dev
  python3
)
# Only the tests and the checks of continuous integration want these.
plumbline_check_packages=(clang clang-format clang-tidy libclang-rt-14-dev)
# Large, and only one check wants it: the report page in a real browser, which is skipped without.
plumbline_browser_packages=(chromium)

plumbline_setup() {
  local missing=() package
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "This system has no apt. plumbline needs these Debian 12 packages, or what they are called here:" >&2
    echo "  $*" >&2
    return 0
  fi
  for package in "$@"; do
    dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "Missing packages, and neither root nor sudo to install them: ${missing[*]}" >&2
      return 1
    fi
    sudo=(sudo)
  fi
  echo "Installing: ${missing[*]}" >&2
  "${sudo[@]}" apt-get update -qq >&2 || echo "apt-get update failed; trying with the package lists at hand" >&2
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
    >/dev/null
}

# plumbline_build PRESET [TARGET ...]
plumbline_build() {
  local preset=$1
  shift
  cmake --preset "$preset" >/dev/null
  cmake --build --preset "$preset" ${1:+--target "$@"} -- --quiet
}
