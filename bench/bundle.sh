#!/usr/bin/env bash
# Packs the built program as a folder that runs on another Linux host of the same processor family, without a
# package manager, network or root. The folder has the program, Open MPI with its launcher and plugins, and
# every library they need except the C library's own (the host's glibc must not be older than the one here).
#
#   ./bench/bundle.sh OUT_FOLDER [--build FOLDER] [--program=FILE]... [--cuda-libraries] [--tar FILE.tar.gz]
#
# --build           where the program was built (default: build/release)
# --program=FILE    also pack this program of the build, named below its folder
# --cuda-libraries  also pack cuBLASLt, cuDNN, NCCL and CUPTI (some 1.5 GB). Without, the bundle looks for
#                   them on the host: in $PLUMBLINE_CUDA_LIBRARIES (folders separated by colons), where the
#                   loader finds them, in /usr/local/cuda, and in the packages of the host's python3
#                   (nvidia-*).
# --tar             also write the folder as an archive
#
# On the host: OUT_FOLDER/plumbline doctor
#              OUT_FOLDER/plumbline matrix OUT_FOLDER/matrices/demo.yaml --out results
set -euo pipefail

usage() {
  awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "${BASH_SOURCE[0]}" >&2
  exit 2
}

source_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out='' build=$source_folder/build/release cuda_libraries=false archive='' programs=(bench/plumbline)
while [ $# -gt 0 ]; do
  case $1 in
    --build) build=${2:?} && shift 2 ;;
    --program=?*) programs+=("${1#*=}") && shift ;;
    --cuda-libraries) cuda_libraries=true && shift ;;
    --tar) archive=${2:?} && shift 2 ;;
    -*) usage ;;
    *) [ -z "$out" ] || usage && out=$1 && shift ;;
  esac
done
[ -n "$out" ] || usage
[ -x "$build/bench/plumbline-cuda" ] && programs+=(bench/plumbline-cuda)
for program in "${programs[@]}"; do
  [ -x "$build/$program" ] || { echo "$build/$program: not there; build first, or name --build" >&2; exit 2; }
done
if [ -e "$out" ] && [ ! -e "$out/.plumbline-bundle" ] && [ -n "$(ls -A "$out" 2>/dev/null)" ]; then
  echo "$out: exists and is no bundle; name an empty or new folder" >&2
  exit 2
fi
rm -rf "$out"
mkdir -p "$out/bin" "$out/lib" "$out/share"
touch "$out/.plumbline-bundle"

# The C library and its loader are the host's: they belong to its kernel and to its NVIDIA driver.
is_of_the_host() {
  case $1 in
    ld-linux*|libc.so*|libm.so*|libpthread.so*|libdl.so*|librt.so*) ;;
    libutil.so*|libresolv.so*|libnsl.so*|libcuda.so*) ;;
    *) return 1 ;;
  esac
}
is_cuda() {
  case $1 in
    libcudart*) return 1 ;;  # small, and a build's own
    libcud*|libcublas*|libnccl*|libcupti*|libnvrtc*|libnvJitLink*) ;;
    *) return 1 ;;
  esac
}
# "name path" of everything a program or library is linked with.
needs() { ldd "$1" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }'; }

pack_libraries_of() {
  local name path
  while read -r name path; do
    is_of_the_host "$name" && continue
    is_cuda "$name" && ! $cuda_libraries && continue
    [ -e "$out/lib/$name" ] || cp -L "$path" "$out/lib/$name"
  done < <(needs "$1")
}

for program in "${programs[@]}"; do
  cp "$build/$program" "$out/bin/"
  pack_libraries_of "$build/$program"
done

# cuDNN is loaded by name, and so are its parts and NVRTC: ldd sees none of them. They lie next to cuBLASLt.
if $cuda_libraries && [ -x "$build/bench/plumbline-cuda" ]; then
  cublas=$(needs "$build/bench/plumbline-cuda" | awk '$1 ~ /^libcublasLt/ { print $2 }')
  for path in "$(dirname "${cublas:-/}")"/lib{cudnn*.so.9,nvrtc.so.*,nvrtc-builtins.so.*}; do
    [ -e "$path" ] && cp -L "$path" "$out/lib/"
  done
fi

# Open MPI: the launcher under both its names, the daemon, the texts of its messages, and plugins. Only those
# that need no network's libraries: the program asks for shared memory and sockets.
launcher=$(readlink -f "$(command -v mpirun)")
cp "$launcher" "$out/bin/orterun"
ln -s orterun "$out/bin/mpirun"
ln -s orterun "$out/bin/mpiexec"
cp -L "$(command -v orted)" "$out/bin/"
pack_libraries_of "$launcher"
path_of() { ompi_info --parsable --path "$1" | sed -n "s/^path:$1://p"; }
prefix=$(path_of prefix)
plugins=$(path_of pkglibdir)
texts=$(path_of pkgdatadir)
for folder in "$plugins" "$texts"; do
  case $folder in
    "$prefix"/*) mkdir -p "$out/${folder#"$prefix"/}" ;;
    *) echo "Open MPI keeps $folder outside of its prefix $prefix: it cannot be moved" >&2; exit 1 ;;
  esac
done
cp "$texts"/*.txt "$out/${texts#"$prefix"/}/"
for plugin in "$plugins"/*.so; do
  if needs "$plugin" |
    grep -qE '^lib(fabric|efa|ibverbs|rdmacm|psm|infinipath|uc[mpst]|oshmem|mca_common_(ofi|ucx|verbs))'; then
    continue
  fi
  cp "$plugin" "$out/${plugins#"$prefix"/}/"
  pack_libraries_of "$plugin"
done
# PMIx, through which launcher and ranks talk, has plugins of its own next to its library.
pmix=$(needs "$plugins"/mca_pmix_ext3x.so | awk '$1 ~ /^libpmix/ { print $2 }')
if [ -n "$pmix" ]; then
  pmix=$(dirname "$(readlink -f "$pmix")")
  mkdir -p "$out/pmix/lib" "$out/pmix/share"
  cp -r "$pmix/pmix" "$out/pmix/lib/"
  [ -d "$pmix/../share/pmix" ] && cp -r "$pmix/../share/pmix" "$out/pmix/share/"
  for plugin in "$out"/pmix/lib/pmix/*.so; do pack_libraries_of "$plugin"; done
fi

cp -r "$source_folder/bench/matrices" "$out/"

cat >"$out/plumbline" <<'WRAPPER'
#!/bin/sh
# Starts the program with the libraries of its bundle, wherever the bundle lies.
self=$0
while [ -h "$self" ]; do
  target=$(readlink "$self")
  case $target in /*) self=$target ;; *) self=$(dirname "$self")/$target ;; esac
done
here=$(cd "$(dirname "$self")" && pwd) || exit 1
export OPAL_PREFIX="$here"
# The second is where PMIx looks for plugins; the host may have those of another version.
[ -d "$here/pmix" ] && export PMIX_PREFIX="$here/pmix" PMIX_LIBDIR="$here/pmix/lib"
export PATH="$here/bin:${PATH:-/usr/local/bin:/usr/bin:/bin}"
export HOME="${HOME:-/tmp}"
# Open MPI wants a way to other hosts even when there are none.
command -v ssh >/dev/null || command -v rsh >/dev/null || export OMPI_MCA_plm="${OMPI_MCA_plm:-isolated}"
cuda=${PLUMBLINE_CUDA_LIBRARIES:-}
[ -z "$cuda" ] && [ -e "$here/host/libnccl.so.2" ] && cuda=$here/host  # links that were made to the host's
if [ -x "$here/bin/plumbline-cuda" ] && [ -z "$cuda" ] && [ ! -e "$here/lib/libnccl.so.2" ]; then
  # Those the loader does not find by itself.
  cuda=$(python3 -c 'import glob, site
folders = set(site.getsitepackages() + [site.getusersitepackages()])
print(":".join(f for s in sorted(folders) for f in glob.glob(s + "/nvidia/*/lib")))' 2>/dev/null)
  [ -d /usr/local/cuda/lib64 ] && cuda=$cuda${cuda:+:}/usr/local/cuda/lib64
fi
export LD_LIBRARY_PATH="$here/lib${cuda:+:$cuda}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec "$here/bin/plumbline" "$@"
WRAPPER
chmod +x "$out/plumbline"

if [ -n "$archive" ]; then
  tar -C "$(dirname "$out")" -czf "$archive" "$(basename "$out")"
  du -h "$archive" >&2
fi
du -sh "$out" >&2
