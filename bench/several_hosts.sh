#!/usr/bin/env bash
# Runs a command as if this machine were several hosts:
#   bench/several_hosts.sh [-s SLOTS] N COMMAND [ARGUMENT ...]
#
# A host is a network, a UTS and a mount namespace. It has a name of its own (host1, host2, ...), an address
# of its own (10.77.0.1, ...) that a bridge joins with the others, and a loopback of its own. Processors,
# memory and files are of one machine. The command runs on host1. It finds the hosts with SLOTS ranks each
# (default 1) in the file $PLUMBLINE_HOSTFILE, and $PLUMBLINE_LAUNCH_AGENT enters them.
# `$PLUMBLINE_LAUNCH_AGENT` with host2 for {host} and a command runs that there. Ends with the command's exit
# code, and with 77 where this user may not make namespaces.
set -euo pipefail
slots=1
if [ "${1:-}" = -s ]; then slots=$2; shift 2; fi
[ $# -ge 2 ] || { awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$0" >&2; exit 2; }
count=$1
shift

folder=$(mktemp -d "${TMPDIR:-/tmp}/plumbline-hosts-XXXXXX")
holders=()
clear_up() {
  [ ${#holders[@]} -eq 0 ] || kill -KILL "${holders[@]}" 2>/dev/null || true
  rm -rf "$folder"
}
trap clear_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

why() { echo "several_hosts.sh: no namespaces here: $1" >&2; exit 77; }
for tool in unshare nsenter setpriv ip; do command -v "$tool" >/dev/null || why "$tool is not installed"; done
unshare --net --uts --mount true 2>"$folder/why" || why "$(tail -n 1 "$folder/why")"

# hold NAME: a namespace of each kind that lives as long as this script.
hold() {
  setpriv --pdeathsig KILL unshare --net --uts --mount sleep infinity 2>"$folder/why" &
  disown $!  # its end is no news
  holders+=($!)
  echo $! >"$folder/$1"
  # Its own namespaces once it has become sleep.
  for _ in $(seq 100); do
    [ "$(cat "/proc/$!/comm" 2>/dev/null)" = sleep ] && return
    sleep 0.05
  done
  why "$(tail -n 1 "$folder/why")"
}
within() { local name=$1; shift; nsenter --target "$(cat "$folder/$name")" --net --uts --mount -- "$@"; }

hold bridge
within bridge ip link add hosts type bridge 2>"$folder/why" || why "$(tail -n 1 "$folder/why")"
within bridge ip link set hosts up
echo "127.0.0.1 localhost" >"$folder/hosts"
for number in $(seq "$count"); do
  echo "10.77.0.$number host$number" >>"$folder/hosts"
  echo "host$number slots=$slots" >>"$folder/hostfile"
done
for number in $(seq "$count"); do
  hold "host$number"
  within bridge ip link add "to$number" type veth peer name eth0 netns "$(cat "$folder/host$number")"
  within bridge ip link set "to$number" master hosts up
  within "host$number" ip link set lo up
  within "host$number" ip address add "10.77.0.$number/24" dev eth0
  within "host$number" ip link set eth0 up
  within "host$number" hostname "host$number"
  within "host$number" mount --bind "$folder/hosts" /etc/hosts
done

cat >"$folder/enter" <<END
#!/bin/sh
host=\$1
shift
exec nsenter --target "\$(cat "$folder/\$host")" --net --uts --mount --wdns="\$PWD" -- "\$@"
END
chmod +x "$folder/enter"
export PLUMBLINE_HOSTFILE=$folder/hostfile PLUMBLINE_LAUNCH_AGENT="$folder/enter {host}"
"$folder/enter" host1 "$@" &
wait $! || exit $?
