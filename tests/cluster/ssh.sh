#!/usr/bin/env bash
# OpenSSH over hosts of this machine; run by hand:
#   bench/several_hosts.sh -s 2 2 tests/cluster/ssh.sh PLUMBLINE
# A daemon on every host with keys of this run, `run --hostfile` over it as on a cluster. A line each; losses
# and gradients must be those of one rank, bit for bit where sums keep their order. Ends with 77 where sshd is
# not installed or not root.
set -euo pipefail
[ $# -ge 1 ] || { awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$0" >&2; exit 2; }
plumbline=$(realpath "$1")
sshd=$(command -v sshd || true)
[ -n "$sshd" ] || { echo "ssh.sh: sshd is not installed (openssh-server)" >&2; exit 77; }
[ "$(id -u)" -eq 0 ] || { echo "ssh.sh: needs root, for sshd" >&2; exit 77; }
[ -n "${PLUMBLINE_HOSTFILE:-}" ] ||
  { echo "ssh.sh: start it by bench/several_hosts.sh" >&2; exit 2; }
enter=${PLUMBLINE_LAUNCH_AGENT% *}
unset PLUMBLINE_LAUNCH_AGENT
hosts=$(sed 's/ .*//' "$PLUMBLINE_HOSTFILE")
tour=$(cd "$(dirname "$0")/../.." && pwd)/bench/tour

folder=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"

# Keys of this run alone, in a folder that every host has at ~/.ssh in its own mounts.
mkdir ssh && chmod 700 ssh
ssh-keygen -q -t ed25519 -N "" -f ssh/id_ed25519
ssh-keygen -q -t ed25519 -N "" -f host_key
cp ssh/id_ed25519.pub ssh/authorized_keys
for host in $hosts; do echo "$host $(cut -d' ' -f1,2 host_key.pub)" >>ssh/known_hosts; done
mkdir -p "$HOME/.ssh" /run/sshd
for host in $hosts; do
  "$enter" "$host" mount --bind "$folder/ssh" "$HOME/.ssh"
  "$enter" "$host" "$sshd" -D -e -f /dev/null -h "$folder/host_key" -o PidFile=none -o UsePAM=no \
    -o StrictModes=no \
    2>"sshd.$host.log" &
  pids+=($!)
done
for host in $hosts; do
  for _ in $(seq 50); do
    ssh -o BatchMode=yes "$host" true 2>/dev/null && break
    sleep 0.1
  done
  [ "$(ssh -o BatchMode=yes "$host" hostname)" = "$host" ] || { echo "$host: no ssh" >&2; exit 1; }
done

options="$tour/small.yaml --save-gradients"
# same NAME: its loss and gradients against those of one rank.
same() {
  python3 - "$1" <<'END'
import json, struct, sys
def tensors(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    for name, entry in header.items():
        if name == "__metadata__": continue
        begin, end = entry["data_offsets"]
        yield name, struct.unpack(f"<{(end - begin) // 4}f", data[8 + size + begin:8 + size + end])
one, other = dict(tensors("one.safetensors")), dict(tensors(sys.argv[1] + ".safetensors"))
assert one.keys() == other.keys()
worst = max(max(abs(a - b) for a, b in zip(one[name], other[name])) / max(map(abs, one[name]))
            for name in one)
def loss(path):
    record = json.load(open(path))
    return (record.get("measurement") or record)["loss"]
off = abs(loss(sys.argv[1] + ".json") / loss("one.json") - 1)
print(f"{sys.argv[1]}: loss off by {off:.1e} of it, gradients by {worst:.1e} of a tensor's largest entry")
sys.exit(off > 1e-6 or worst > 1e-5)
END
}

"$plumbline" run $options one.safetensors --json --quiet >one.json
for split in "--pp 2 --dp 2" "--tp 2 --dp 2" "--tp 4"; do
  name=ssh${split// /}
  "$plumbline" run $options "$name.safetensors" $split --hostfile "$PLUMBLINE_HOSTFILE" --json --quiet \
    >"$name.json"
  same "$name"
done
