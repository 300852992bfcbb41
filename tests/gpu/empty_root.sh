#!/usr/bin/env bash
# Runs a command of an unpacked bundle in a root without toolkit, packages or driver. It has only a shell,
# Python, the C library, and CUDA's large libraries where a PyTorch installation keeps them. Needs root, or a
# user namespace.
#   tests/gpu/empty_root.sh BUNDLE OUT COMMAND [ARGUMENT ...]
# Paths of COMMAND begin at /bundle, results go to OUT.
set -euo pipefail
bundle=$(realpath "$1") out=$(realpath "$2")
shift 2
if [ -z "${PLUMBLINE_IN_NAMESPACE:-}" ]; then
  if [ "$(id -u)" -eq 0 ]; then flags=(-m -p -f); else flags=(-r -m -p -f); fi
  PLUMBLINE_IN_NAMESPACE=1 exec unshare "${flags[@]}" "$0" "$bundle" "$out" "$@"
fi
root=$(mktemp -d)
mount -t tmpfs none "$root"
mkdir -p "$root"/{bin,usr/bin,lib,lib64,etc,tmp,root,proc,dev,sys,bundle,out}
echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
put() {  # a file, and the libraries it is linked with
  local path
  mkdir -p "$root$(dirname "$1")"
  [ -e "$root$1" ] || cp -L "$1" "$root$1"
  for path in $(ldd "$1" 2>/dev/null | grep -oE '/[^ ]+\.so[^ ]*'); do
    mkdir -p "$root$(dirname "$path")"
    [ -e "$root$path" ] || cp -L "$path" "$root$path"
  done
}
for program in sh env dirname readlink mkdir tee uname cat; do
  path=$(command -v "$program")
  put "$(realpath "$path")"
  for place in bin usr/bin; do
    [ -e "$root/$place/$program" ] || ln -s "$(realpath "$path")" "$root/$place/$program"
  done
done
# The C library's parts that other programs may be linked with.
libc=$(dirname "$(ldd /bin/sh | grep -oE '/[^ ]*libc\.so\.6')")
for name in libm libpthread libdl librt libutil libresolv; do
  for path in "$libc/$name".so.*; do [ -e "$path" ] && put "$path"; done
done
python=$(python3 -c 'import os, sys; print(os.path.realpath(sys.executable))')
library=$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
put "$python"
ln -sf "$python" "$root/usr/bin/python3"
ln -sf "$python" "$root/bin/python3"
mkdir -p "$root$library"
tar -C "$library" --exclude=site-packages --exclude=dist-packages --exclude=test --exclude=__pycache__ \
  --exclude='config-*' -cf - . | tar -C "$root$library" -xf -
for path in "$library"/lib-dynload/*.so; do put "$path"; done
# As PyTorch's packages for CUDA 13 lie.
site=$root/opt/torch/lib/python3.12/site-packages/nvidia
toolkit=$(dirname "$(dirname "$(realpath "$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)")")")
mkdir -p "$site"/{cu13,cudnn,nccl}/lib
for name in libcublasLt.so.13 libcupti.so.13 libnvrtc.so.13 'libnvrtc-builtins.so.13*' 'libcudnn*.so.9' \
  libnccl.so.2; do
  case $name in libcudnn*) package=cudnn ;; libnccl*) package=nccl ;; *) package=cu13 ;; esac
  for path in "$toolkit"/lib64/$name "$toolkit"/extras/CUPTI/lib64/$name; do
    [ -e "$path" ] || continue
    touch "$site/$package/lib/$(basename "$path")"
    mount --bind "$(realpath "$path")" "$site/$package/lib/$(basename "$path")"
  done
done
mount --bind "$bundle" "$root/bundle"
mount --bind "$out" "$root/out"
mount -t proc none "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
chroot=$(command -v chroot || echo /usr/sbin/chroot)
exec env -i PATH=/usr/bin:/bin HOME=/root "$chroot" "$root" "$@"
