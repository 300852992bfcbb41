#!/usr/bin/env python3
"""Predicts steps over links of limited rate, from a profile imported from `plumbline bench collective`:

  bench/several_hosts.sh 2 tests/cluster/rate_limited.py PLUMBLINE [--rate MBIT] [--preset PROFILE]

Token buckets (tc qdisc tbf) limit the link of each of two hosts, a rank and a processor each. The sweeps of
all-reduce and latency over them are imported into --preset, a calibrated profile of one machine. Steps of
data, tensor and pipeline parallelism are measured; a table has their predictions with both profiles. The
pipeline's step is mostly computation: give --preset a calibration of this machine to judge it.

Exit code 0: the step of data parallelism is predicted within --bound, and the preset errs by more than a
factor of 2; 1: it is not, in any of --tries, though other programs were quiet in one; 77: they were not, or
no hosts, no tc, fewer than 2 processors here.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

QUIET = 1.5  # load; the two ranks themselves wait for messages most of the time
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = """model: {model_type: qwen2, num_hidden_layers: 4, hidden_size: 256, num_attention_heads: 4,
        num_key_value_heads: 2, intermediate_size: 512, vocab_size: 512, max_position_embeddings: 64,
        rms_norm_eps: 1.0e-6, tie_word_embeddings: false}
seq_length: 64
precision: fp32
steps: 7
"""
CASES = {"data parallel": ("--dp", "2", "--mbs", "1", "--gbs", "4"),
         "tensor parallel": ("--tp", "2", "--mbs", "8", "--gbs", "16"),
         "pipeline": ("--pp", "2", "--mbs", "8", "--gbs", "32")}
# A processor for each host: mpirun would bind both ranks to the first one.
AGENT = """#!/bin/sh
exec taskset -c $((${1#host} - 1)) "%s" "$@"
"""


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


class Hosts:
    """The two hosts of several_hosts.sh, each on a processor of its own."""

    def __init__(self, program, folder):
        self.program = os.path.abspath(program)
        self.folder = folder
        self.enter = os.environ["PLUMBLINE_LAUNCH_AGENT"].split()[0]
        agent = os.path.join(folder, "agent")
        with open(agent, "w", encoding="utf-8") as file:
            file.write(AGENT % self.enter)
        os.chmod(agent, 0o755)
        os.environ["PLUMBLINE_LAUNCH_AGENT"] = agent + " {host}"

    def limit(self, mbit):
        for host in ("host1", "host2"):
            limited = subprocess.run([self.enter, host, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate",
                                      f"{mbit}mbit", "burst", "16kb", "latency", "2s"],
                                     capture_output=True, text=True)
            if limited.returncode != 0:
                skip("tc cannot limit a link here: " + limited.stderr.strip())

    def say(self, *words):
        """Standard output of the program on the first host's processor."""
        done = subprocess.run(["taskset", "-c", "0", self.program, *words], cwd=self.folder, capture_output=True,
                              text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
        return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--rate", type=int, default=400, help="of each link, Mbit/s")
    parser.add_argument("--preset", default=os.path.join(ROOT, "results/recorded/xeon-2-cores/profile.json"))
    parser.add_argument("--bound", type=float, default=0.10)
    parser.add_argument("--tries", type=int, default=3)
    given = parser.parse_args()
    if "PLUMBLINE_HOSTFILE" not in os.environ:
        skip("start it by bench/several_hosts.sh")
    for tool in ("tc", "taskset"):
        if shutil.which(tool) is None:
            skip(f"{tool} is not installed")
    if not {0, 1} <= os.sched_getaffinity(0):
        skip("two processors are needed, 0 and 1")
    with tempfile.TemporaryDirectory(prefix="plumbline-rate-") as folder:
        hosts = Hosts(given.program, folder)
        hosts.limit(given.rate)
        hostfile = os.environ["PLUMBLINE_HOSTFILE"]
        with open(os.path.join(folder, "run.yaml"), "w", encoding="utf-8") as file:
            file.write(MODEL)
        shutil.copy(given.preset, os.path.join(folder, "preset.json"))
        good = quiet = False
        for number in range(given.tries):
            with open(os.path.join(folder, "sweep.json"), "w", encoding="utf-8") as file:
                file.write(hosts.say("bench", "collective", "all-reduce", "latency", "--hostfile", hostfile, "--sizes",
                                     "1K:16M:2", "--time-limit", "0.3", "--json"))
            hosts.say("import-bench", "sweep.json", "--hardware", "preset.json", "--out", "imported.json")
            load = os.getloadavg()[0]
            print(f"{given.rate} Mbit/s, try {number + 1}, load {load:.1f}")
            print(f"{'step':<16} {'measured (s)':>12} {'imported (s)':>12} {'error (%)':>10} {'preset (s)':>11} "
                  f"{'error (%)':>10}")
            errors = {}
            for name, words in CASES.items():
                record = json.loads(hosts.say("run", "run.yaml", *words, "--hostfile", hostfile, "--hardware",
                                              "imported.json", "--json"))
                measured = record["measurement"]["time"]["step_s"]
                imported = record["prediction"]["time"]["step_s"]
                preset = json.loads(hosts.say("predict", "run.yaml", *words, "--hardware", "preset.json",
                                              "--backend", "cpu", "--json"))["prediction"]["time"]["step_s"]
                errors[name] = imported / measured - 1
                print(f"{name:<16} {measured:>12.4f} {imported:>12.4f} {100 * errors[name]:>+10.1f} {preset:>11.4f} "
                      f"{100 * (preset / measured - 1):>+10.1f}", flush=True)
                if name == "data parallel":
                    quiet = quiet or (load < QUIET and not record["measurement"]["disturbance"]["disturbed"])
                    good = abs(errors[name]) <= given.bound and not 0.5 <= preset / measured <= 2
            if good:
                break
    if not good and not quiet:
        skip("other programs ran in every try, which stretches steps")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
