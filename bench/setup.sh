#!/usr/bin/env bash
# Installs missing build dependencies of plumbline. Sourced by run.sh and tests/run.sh; needs no network when
# everything is there. On a system without apt it prints the list and continues. libdnnl-dev finds its OpenCL
# only with ocl-icd-opencl-dev, which Debian merely recommends with it.
plumbline_packages=(
  g++ cmake ninja-build ccache
  libfmt-dev nlohmann-json3-dev libyaml-cpp-dev libtomlplusplus-dev libcli11-dev
  libdnnl-dev ocl-icd-opencl-dev libopenmpi-dev openmpi-bin libhwloc-dev librandom123-dev
  libprotozero-dev libminizip-dev zlib1g-dev
  libgtest-dev libgmock-dev libbenchmark-dev librapidcheck-dev
  python3
)
# Only the tests and the checks of continuous integration need these.
plumbline_check_packages=(clang clang-format clang-tidy libclang-rt-14-dev python3-dev python3-venv)
# Large, and only one check needs it: the report page in a real browser, which is skipped without.
plumbline_browser_packages=(chromium)

# plumbline_refuse TEXT: ends the script with one line.
plumbline_refuse() {
  echo "$plumbline_name: $1" >&2
  exit 2
}

# plumbline_script PATH ARGUMENT ...: answers before anything is installed or built. The comment that opens
# the script is its help.
plumbline_script() {
  plumbline_name=$(basename "$1")
  case ${2:-} in
    -h | --help)
      awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$1"
      exit 0
      ;;
  esac
  [ -w . ] || plumbline_refuse "$PWD: found a checkout that cannot be written, expected one for build/; copy it"
}

plumbline_setup() {
  local missing=() package
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "This system has no apt. plumbline needs these Debian 12 packages, or what they are called here:" >&2
    echo "  $*" >&2
    return 0
  fi
  for package in "$@"; do
    dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
      missing+=("$package")
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
  "${sudo[@]}" apt-get update -qq >&2 ||
    echo "apt-get update failed; trying with the package lists at hand" >&2
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "${missing[@]}" >/dev/null
}

# The headers of NVIDIA's cudnn-frontend, which no Debian package has, into build/third_party. Only where a
# CUDA toolkit brings cudnn.h; without them attention on a GPU is left to own kernels. One wheel of PyPI for
# any host Python: only the headers in it count.
plumbline_cudnn_frontend() {
  local version=1.32.0 folder=build/third_party/cudnn-frontend wheel nvcc toolkit
  local hash=c6006556017a4d1c914c52a556c71b1267f2d6a0500f742e7b4edef539878df0
  [ -e "$folder/$version" ] && return 0
  nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
  toolkit=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
  [ -e "$toolkit/include/cudnn.h" ] || [ -e /usr/include/cudnn.h ] || return 0
  rm -rf "$folder"
  mkdir -p "$folder"
  wheel=$folder/wheel
  if echo "nvidia-cudnn-frontend==$version --hash=sha256:$hash" >"$folder/requirements.txt" &&
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
      --only-binary=:all: --python-version 3.11 --platform manylinux_2_28_x86_64 -d "$wheel" \
      -r "$folder/requirements.txt" >/dev/null 2>&1 &&
    python3 -m zipfile -e "$wheel"/*.whl "$wheel" && mv "$wheel/include" "$folder/"; then
    touch "$folder/$version"
  else
    echo "cudnn-frontend $version could not be fetched: attention on a GPU is left to own kernels" >&2
  fi
  rm -rf "$wheel"
}

# Ninja's lines "[n/m] what" (stdin) as progress with the time left: one line that is redrawn on a terminal,
# else one every 20 s (plumbline_seconds_between). Output of the compiler is passed on.
plumbline_build_progress() {
  local line rest left begin=$SECONDS drawn=$SECONDS terminal=
  [ -t 2 ] && terminal=yes
  while IFS= read -r line; do
    if [[ $line =~ ^\[([1-9][0-9]*)/([0-9]+)\]\  ]]; then
      rest=$(((SECONDS - begin) * (BASH_REMATCH[2] - BASH_REMATCH[1]) / BASH_REMATCH[1]))
      left="about $rest s left"
      [ "$rest" -lt 60 ] || left="about $(((rest + 30) / 60)) min left"
      if [ -n "$terminal" ]; then
        printf '\r\033[Kbuilding: %s of %s, %s' "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" "$left" >&2
      elif [ $((SECONDS - drawn)) -ge "${plumbline_seconds_between:-20}" ]; then
        drawn=$SECONDS
        printf 'building: %s of %s, %s\n' "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" "$left" >&2
      fi
    elif [[ ! $line =~ ^(\[0/|ninja: (no work|Entering)) ]]; then
      printf '%s%s\n' "${terminal:+$'\r\033[K'}" "$line" >&2
    fi
  done
  [ -z "$terminal" ] || printf '\r\033[K' >&2
}

# plumbline_build PRESET [TARGET ...]
plumbline_build() {
  local preset=$1
  shift
  plumbline_cudnn_frontend
  echo "configuring and building $preset" >&2
  cmake --preset "$preset" >/dev/null
  NINJA_STATUS='[%f/%t] ' cmake --build --preset "$preset" ${1:+--target "$@"} | plumbline_build_progress
  return "${PIPESTATUS[0]}"
}
