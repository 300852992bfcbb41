#!/bin/sh
# Runs parts of a GPU slot from an unpacked bundle, wherever it lies:
#   gpu-bundle/gpu-slot --part 1 --out FOLDER [--seconds S] [--dry-run]
#   gpu-bundle/gpu-slot --start --out FOLDER [...]                the same in a session that outlives the call
#   gpu-bundle/gpu-slot --wait SECONDS --out FOLDER [--to OTHER]  waits for it; packs FOLDER into
#                                                                 OTHER/results.tar.gz
# Prints where CUDA's libraries were found on this host; otherwise it needs only Python and the C library.
here=$(cd "$(dirname "$0")" && pwd) || exit 1
out=gpu-results
arguments=
start=
wait=
to=
while [ $# -gt 0 ]; do
  case $1 in
    --out) out=$2 && shift 2 ;;
    --start) start=yes && shift ;;
    --wait) wait=$2 && shift 2 ;;
    --to) to=$2 && shift 2 ;;
    *) arguments="$arguments $1" && shift ;;
  esac
done
# shellcheck disable=SC2086
[ -n "$wait" ] && exec python3 -u "$here/gpu/session.py" wait "$out" "$wait" ${to:+"$to"}
mkdir -p "$out" || exit 1
python3 "$here/gpu/libraries.py" "$here/host" | tee "$out/libraries.jsonl"
# For programs that are started without the wrapper `plumbline`; slot.py adds the libraries.
export OPAL_PREFIX="$here" PATH="$here/bin:$PATH" HOME="${HOME:-/tmp}"
[ -d "$here/pmix" ] && export PMIX_PREFIX="$here/pmix" PMIX_LIBDIR="$here/pmix/lib"
# Open MPI wants a way to other hosts even when there are none.
command -v ssh >/dev/null || command -v rsh >/dev/null || export OMPI_MCA_plm="${OMPI_MCA_plm:-isolated}"
# shellcheck disable=SC2086
[ -n "$start" ] &&
  exec python3 "$here/gpu/session.py" start "$out" python3 -u "$here/gpu/slot.py" "$here" "$out" $arguments
# shellcheck disable=SC2086
exec python3 -u "$here/gpu/slot.py" "$here" "$out" $arguments
