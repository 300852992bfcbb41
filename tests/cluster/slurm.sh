#!/usr/bin/env bash
# A real Slurm of Debian's packages (slurm-wlm, munge) on this machine, with plumbline's jobs; run by hand:
#   bench/several_hosts.sh -s 2 2 tests/cluster/slurm.sh PLUMBLINE FOLDER
# Slurm's controller runs on host1, a node on every host (bench/several_hosts.sh). Cases, a line of output
# each: srun --mpi=pmix where it is there, a batch script over both hosts, and a matrix of 40
# cells as an array of two jobs, both cut off by their time limit or by a dying node. All files go to FOLDER,
# which must not exist yet. Ends with 77 where Slurm is not installed or not root.
set -euo pipefail
[ $# -eq 2 ] || { awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$0" >&2; exit 2; }
plumbline=$(realpath "$1")
folder=$(realpath -m "$2")
for tool in slurmctld slurmd srun sbatch munged; do
  command -v "$tool" >/dev/null && continue
  echo "slurm.sh: $tool is not installed (slurm-wlm, munge)" >&2
  exit 77
done
[ "$(id -u)" -eq 0 ] || { echo "slurm.sh: needs root, for munged and slurmd" >&2; exit 77; }
[ -n "${PLUMBLINE_HOSTFILE:-}" ] || { echo "slurm.sh: start it by bench/several_hosts.sh" >&2; exit 2; }
mkdir -p "$folder"/{state,tmp}
cd "$folder"
enter=${PLUMBLINE_LAUNCH_AGENT% *}
unset PLUMBLINE_LAUNCH_AGENT
hosts=$(sed 's/ .*//' "$PLUMBLINE_HOSTFILE" | paste -sd,)

cat >slurm.conf <<END
ClusterName=here
SlurmctldHost=host1
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CryptoType=crypto/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool.%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=1,sched_interval=5,bf_interval=5,requeue_delay=1
MinJobAge=3600
ReturnToService=2
SlurmdTimeout=10
KillWait=5
SlurmdParameters=config_overrides
NodeName=$hosts CPUs=4 RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
END
export SLURM_CONF=$folder/slurm.conf
dd if=/dev/urandom of=munge.key bs=128 count=1 status=none
chmod 400 munge.key
pids=()
end() {
  [ ! -s slurmctld.pid ] || kill "$(cat slurmctld.pid)" 2>/dev/null || true
  for each in slurmd.*.pid; do [ ! -s "$each" ] || kill "$(cat "$each")" 2>/dev/null || true; done
  [ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null || true
}
trap end EXIT
munged --force --foreground --key-file="$folder/munge.key" --socket="$folder/munge.socket" \
  --pid-file="$folder/munge.pid" \
  --log-file="$folder/munged.log" --seed-file="$folder/munge.seed" & pids+=($!)
until [ -S munge.socket ]; do sleep 0.1; done
slurmctld -D & pids+=($!)
# PMIx makes folders by the job's number: every host has its own place for them, as hosts have a /tmp.
echo "PMIxCliTmpDirBase=$folder/pmix" >mpi.conf
mkdir -p pmix
for host in ${hosts//,/ }; do
  mkdir -p "pmix.$host"
  "$enter" "$host" mount --bind "$folder/pmix.$host" "$folder/pmix"
done
start_node() { mkdir -p "spool.$1"; "$enter" "$1" slurmd -D -N "$1" & pids+=($!); disown $!; }
for host in ${hosts//,/ }; do start_node "$host"; done
for _ in $(seq 60); do
  [ "$(sinfo -h -o %T 2>/dev/null | sort -u)" = idle ] && break
  sleep 0.5
done
sinfo -N

cat >run.yaml <<END
model: {model_type: qwen2, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4,
        num_key_value_heads: 2, intermediate_size: 96, vocab_size: 128, max_position_embeddings: 64,
        rms_norm_eps: 1.0e-6, tie_word_embeddings: false}
seq_length: 16
global_batch_size: 4
precision: fp32
steps: 2
END
export HOME=$folder TMPDIR=$folder/tmp XDG_CACHE_HOME= OMPI_MCA_mpi_yield_when_idle=1
wrong=0
loss_of() { grep -o '"loss": [0-9.]*' "$1" | head -n 1; }
# held NAME: the run that wrote NAME.json and NAME.safetensors has the numbers of one rank.
held() {
  if [ "$(loss_of "$1.json")" = "$(loss_of one.json)" ] && cmp -s one.safetensors "$1.safetensors"; then
    echo "$1: $(loss_of "$1.json"), gradients to the bit those of one rank"
  else
    echo "$1: NOT the numbers of one rank: $(tail -n 3 "$1.err" | tr '\n' ' ')"
    wrong=$((wrong + 1))
  fi
}
"$plumbline" run run.yaml --json --save-gradients one.safetensors >one.json 2>one.err
if srun --mpi=list 2>&1 | grep -qw pmix; then
  timeout 120 srun --mpi=pmix --nodes=2 --ntasks=2 "$plumbline" run run.yaml --pp 2 \
    --save-gradients srun-pmix.safetensors >srun-pmix.json 2>srun-pmix.err || true
  held srun-pmix
else
  echo "srun --mpi=pmix: not in this Slurm"
fi
cat >batch.sh <<END
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --output=batch.err
"$plumbline" run run.yaml --pp 2 --launcher mpirun --json --save-gradients batch.safetensors >batch.json
END
timeout 120 sbatch --wait --quiet batch.sh || true
held batch

# A matrix of 40 cells as an array of two jobs: both get notice of their time limit after some seconds and are
# queued again.
{
  sed 's/^steps:.*/steps: 20/' run.yaml
  echo "matrix: {pipeline_model_parallel_size: [1, 2], seed: [$(seq -s, 20)]}"
} >matrix.yaml
# cells FOLDER: how many have a row, more than one, and are ok by their last.
cells() {
  python3 - "$1/results.jsonl" <<'END'
import collections, json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
count = collections.Counter(row["id"] for row in rows)
last = {row["id"]: row["status"] for row in rows}
print(len(count), "cells,", sum(n > 1 for n in count.values()), "with two rows,",
      sum(s == "ok" for s in last.values()), "ok")
END
}
# finish JOB: waits until it has left the queue. A requeued job need not wait the two minutes that Slurm gives
# it, but some seconds. slurmd refuses a job that starts in the second in which it ended.
finish() {
  local waiting each
  for _ in $(seq 300); do
    squeue -h -j "$1" 2>/dev/null | grep -q . || return 0
    waiting=$(squeue -h -r -j "$1" -t PD -o %A 2>/dev/null || true)
    sleep "$([ -z "$waiting" ] && echo 0.5 || echo 3)"
    for each in $waiting; do scontrol update "JobId=$each" StartTime=now 2>/dev/null || true; done
  done
  echo "job $1 is still in the queue"
}
submit() {
  "$plumbline" matrix matrix.yaml --out "$1" --launcher slurm --jobs 2 --job-option=--time=2 \
    --job-option=--nodes=2 --job-option=--ntasks-per-node=1 "${@:2}" | grep -o 'job [0-9]*' | grep -o '[0-9]*'
}
held_matrix() {
  local found restarts
  found=$(cells "$1")
  restarts=$(scontrol show job "$2" | grep -oE '(Restarts|JobState)=[A-Z0-9]*' | paste -sd' ')
  echo "$1: $found; $restarts"
  [ "$found" = "$3" ] || wrong=$((wrong + 1))
}
job=$(submit cut-off --job-option=--signal=B:USR1@112)
finish "$job"
held_matrix cut-off "$job" "40 cells, 0 with two rows, 40 ok"

# The same, and in the middle everything on host2 dies at once: Slurm queues its jobs again.
job=$(submit dead-node)
until [ "$(cat dead-node/results.jsonl 2>/dev/null | wc -l)" -ge 5 ]; do sleep 0.2; done
for process in /proc/[0-9]*; do
  [ "$(readlink "$process/ns/net" 2>/dev/null)" = "$("$enter" host2 readlink /proc/self/ns/net)" ] || continue
  [ "$(cat "$process/comm" 2>/dev/null)" = sleep ] || kill -KILL "${process#/proc/}" 2>/dev/null || true
done
echo "dead-node: $(cells dead-node) when host2 died"
scontrol update NodeName=host2 State=DOWN Reason=died
start_node host2
scontrol update NodeName=host2 State=RESUME
finish "$job"
state=$(scontrol show job "$job" | grep -oE '(Restarts|JobState)=[A-Z0-9_]*' | paste -sd' ')
echo "dead-node: $(cells dead-node) after the jobs, $state"
job=$(submit dead-node --retry)
finish "$job"
found=$(cells dead-node)
echo "dead-node: $found after a job with --retry"
[[ $found = "40 cells, "*" 40 ok" ]] || wrong=$((wrong + 1))
[ -z "$(ls -A tmp)" ] || { echo "left behind: $(ls tmp)"; wrong=$((wrong + 1)); }
exit "$wrong"
