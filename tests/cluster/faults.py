#!/usr/bin/env python3
"""Injects faults into a matrix over two hosts, at random moments; run by hand:

  bench/several_hosts.sh 2 tests/cluster/faults.py PLUMBLINE COUNT [SEED]

Injected, one at a time:
- SIGKILL for a rank, mpirun, mpirun's daemon on the other host, its supervisor there, the agent, the
  supervisor here, plumbline itself
- the other host's network interface taken down for a while
- everything of the run on the other host killed at once

Afterwards nothing of the run may be left on either host, and no row may be lost or torn. The same command
with --retry must complete every cell. Prints a line for each fault that was not survived, and a summary; the
exit code is 1 if there was one. Ends with 77 outside of several_hosts.sh.
"""
import collections
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

HANG_S = 150
CELLS = 2
RUN = """model: {model_type: qwen2, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4,
        num_key_value_heads: 2, intermediate_size: 96, vocab_size: 128, max_position_embeddings: 64,
        rms_norm_eps: 1.0e-6, tie_word_embeddings: false}
seq_length: 16
global_batch_size: 4
precision: fp32
steps: 2
timeout_s: 20
pipeline_model_parallel_size: 2
matrix: {micro_batch_size: [1, 2]}
"""
FAULTS = ("rank there", "daemon", "host", "plumbline", "rank here", "mpirun", "daemon's supervisor", "agent",
          "supervisor",
          "network")


def read(path):
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


class Cluster:
    def __init__(self, program, agent):
        self.program = str(Path(program).resolve())
        self.enter = agent.split()[0]
        self.folder = Path(tempfile.mkdtemp(prefix="plumbline-faults-"))
        (self.folder / "tmp").mkdir()
        (self.folder / "matrix.yaml").write_text(RUN)
        self.token = f"PLUMBLINE_CAMPAIGN={self.folder.name}".encode()
        self.environment = dict(os.environ, HOME=str(self.folder), TMPDIR=str(self.folder / "tmp"),
                                XDG_CACHE_HOME="",
                                PLUMBLINE_CAMPAIGN=self.folder.name, OMPI_MCA_mpi_yield_when_idle="1")
        self.here = os.readlink("/proc/self/ns/net")

    def there(self, *command):
        subprocess.run([self.enter, "host2", *command], check=True)

    def start(self, *options):
        return subprocess.Popen([self.program, "matrix", "matrix.yaml", "--out", "out", "--quiet",
                                 "--hostfile",
                                 os.environ["PLUMBLINE_HOSTFILE"], *options], cwd=self.folder,
                                 env=self.environment,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def processes(self):
        """(process, words of its command line, on the other host) of all that belong to the run."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or self.token not in read(entry / "environ"):
                continue
            try:
                there = os.readlink(entry / "ns/net") != self.here
            except OSError:
                continue
            found.append((int(entry.name), read(entry / "cmdline").split(b"\0"), there))
        return found

    def victims(self, fault):
        def wanted(words, there):
            program = os.path.basename(words[0]).decode(errors="replace")
            first = words[1] if len(words) > 1 else b""
            is_rank = program == "plumbline" and first == b"run"
            return {"rank here": is_rank and not there, "rank there": is_rank and there,
                    "mpirun": program == "mpirun",
                    "daemon": program == "orted", "daemon's supervisor": first == b"--plumbline-daemon",
                    "agent": first == b"--plumbline-agent", "supervisor": first == b"--plumbline-supervise",
                    "plumbline": program == "plumbline" and first == b"matrix", "host": there}[fault]
        return [process for process, words, there in self.processes() if words[0] and wanted(words, there)]

    def inject(self, fault):
        """True if there was something to hit."""
        if fault == "network":
            self.there("ip", "link", "set", "eth0", "down")
            time.sleep(random.uniform(0.1, 30) if random.random() < 0.5 else 0.5)
            self.there("ip", "link", "set", "eth0", "up")
            return True
        victims = self.victims(fault)
        for process in victims if fault == "host" else victims[:1]:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return bool(victims)

    def rows(self):
        lines = read(self.folder / "out/results.jsonl").split(b"\n")
        return [json.loads(line) for line in lines[:-1]]

    def left(self, limit_s=20):
        until = time.monotonic() + limit_s
        while time.monotonic() < until:
            found = [words[:3] for _, words, _ in self.processes()]
            if not found:
                break
            time.sleep(0.1)
        subprocess.run([self.program, "schedule", "1f1b", "--pp", "2", "--microbatches", "2"],
                       env=self.environment,
                       stdout=subprocess.DEVNULL, check=True)  # the next command of any kind clears up
        shared = [each.name for each in Path("/dev/shm").iterdir()
                  if each.name.startswith("vader_segment.host")]
        return found + [each.name for each in (self.folder / "tmp").iterdir()] + shared

    def end(self):
        for process, _, _ in self.processes():
            os.kill(process, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


def survive(cluster, fault, whole_s):
    """None when the fault was survived, else what was wrong; and whether it hit."""
    shutil.rmtree(cluster.folder / "out", ignore_errors=True)
    run = cluster.start()
    time.sleep(random.uniform(0, whole_s))
    hit = cluster.inject(fault)
    try:
        _, said = run.communicate(timeout=HANG_S)
    except subprocess.TimeoutExpired:
        run.kill()
        return hit, "hangs: " + repr([words[:3] for _, words, _ in cluster.processes()])
    if left := cluster.left():
        return hit, f"left behind: {left}"
    before = {row["id"] for row in cluster.rows()}
    again = cluster.start("--retry")
    try:
        _, said = again.communicate(timeout=HANG_S)
    except subprocess.TimeoutExpired:
        again.kill()
        return hit, "hangs afterwards"
    rows = cluster.rows()
    last = {row["id"]: row["status"] for row in rows}
    if not before <= set(last) or list(last.values()) != ["ok"] * CELLS:
        return hit, f"rows: {[(row['id'][:6], row['status'], row['reason']) for row in rows]} {said[-300:]}"
    ok = collections.Counter(row["id"] for row in rows if row["status"] == "ok")
    if max(ok.values()) > 1:
        return hit, "a cell that was done was run again"
    return hit, None


def main():
    agent = os.environ.get("PLUMBLINE_LAUNCH_AGENT", "")
    if len(sys.argv) < 3 or "PLUMBLINE_HOSTFILE" not in os.environ:
        print(__doc__)
        sys.exit(77)
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    random.seed(seed)
    cluster = Cluster(sys.argv[1], agent)
    wrong, hits, longest = 0, collections.Counter(), (0, "")
    try:
        begun = time.monotonic()
        clean = cluster.start()
        _, said = clean.communicate(timeout=HANG_S)
        whole_s = time.monotonic() - begun
        if [row["status"] for row in cluster.rows()] != ["ok"] * CELLS:
            sys.exit("without any fault: " + said)
        for number in range(int(sys.argv[2])):
            fault = FAULTS[number % len(FAULTS)]
            begun = time.monotonic()
            hit, complaint = survive(cluster, fault, whole_s)
            longest = max(longest, (time.monotonic() - begun, fault))
            hits[fault] += hit
            if complaint:
                wrong += 1
                print(f"{number} {fault}: {complaint}", flush=True)
    finally:
        cluster.end()
    print(f"seed {seed}: {sys.argv[2]} faults, {sum(hits.values())} of them hit something "
          f"({', '.join(f'{fault} {count}' for fault, count in hits.items())}), longest {longest[0]:.0f} s "
          f"({longest[1]}), {wrong} not survived")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
