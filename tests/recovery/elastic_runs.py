#!/usr/bin/env python3
"""Runs in which a lost rank is missing for a while: they wait for it, or the other replicas continue. One row
each.

    tests/recovery/elastic_runs.py PROGRAM FOLDER [SEEDS] [--steps N] [--mtbf 10s] [--replacement 8s]

SEEDS: such as 1-3. Two ranks, two replicas with ZeRO 1. Both forms have the failures of the same seed.
Predictions are made before each run, from the costs of a run with another seed that waits and has at most two
failures. The step time with one replica is predicted, too. Records lie in FOLDER; those already there are not
run again. Prints the relative differences of losses to the undisturbed run, in the first hundred steps after
the first failure and in all of them.
"""
import argparse
import json
import re
import shutil
import sys
from pathlib import Path

import support

COLUMNS = ["seed", "form", "failures", "returns", "total s", "lost s", "detection s", "waiting s",
           "restart s", "missing s",
           "goodput %", "predicted: these failures %", "any run % (nine in ten)", "losses off, 100 steps",
           "all"]


def largest_difference(losses, others):
    return max((abs(one - other) / abs(other) for one, other in zip(losses, others, strict=True)), default=0)


class Runs:
    def __init__(self, asked):
        self.asked = asked
        self.program = Path(asked.program).resolve()
        self.folder = Path(asked.folder).resolve()
        self.folder.mkdir(exist_ok=True)
        support.write_config(self.folder / "run.yaml", hidden=64, batch=16)

    def record(self, name, arguments):
        file = self.folder / f"{name}.json"
        if not file.exists():
            shutil.rmtree(self.folder / f"{name}-saved", ignore_errors=True)  # of a campaign that was stopped
            split = ["--dp", "2", "--zero-stage", "1", "--steps", str(self.asked.steps)]
            file.write_text(json.dumps(support.measured(self.program, self.folder, split + arguments)))
        return json.loads(file.read_text())

    def hit(self, name, failures, *more):
        spec = f"mtbf={self.asked.mtbf},replacement={self.asked.replacement},{failures}"
        return self.record(name, ["--checkpoint-dir", f"{name}-saved", "--checkpoint-interval",
                                  str(self.asked.interval),
                                  "--inject-failures", spec, *more])

    def run(self, seed):
        self.record("undisturbed", [])
        self.hit("costs", "seed=1000,most=2")
        for form, options in (("waits", []), ("elastic", ["--elastic"])):
            self.hit(f"{form}-{seed}", f"seed={seed}", "--recovery-costs", "costs.json", *options)

    def row(self, seed, form):
        record = self.record(f"{form}-{seed}", [])
        recovery = record["recovery"]
        predicted = recovery["predicted"]
        returns = sum(1 for failure in recovery["failures"] if failure["kind"] == "return")
        losses = record["measurement"]["losses"]
        expected = self.record("undisturbed", [])["measurement"]["losses"]
        hit = min((failure["resumed_step"] for failure in recovery["failures"]), default=len(losses))
        after = slice(hit, hit + 100)
        return [seed, form, len(recovery["failures"]) - returns, returns,
                *(f"{recovery[key]:.1f}"
                  for key in ("total_s", "lost_s", "detect_s", "waiting_s", "restart_s", "missing_s")),
                f"{100 * recovery['goodput']:.1f}", f"{100 * predicted['of_seed']:.1f}",
                f"{100 * predicted['mean']:.1f} ({100 * predicted['low']:.0f} to "
                f"{100 * predicted['high']:.0f})",
                f"{largest_difference(losses[after], expected[after]):.0e}",
                f"{largest_difference(losses, expected):.0e}"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("seeds", nargs="?", default="1-3")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--interval", type=int, default=50)
    parser.add_argument("--mtbf", default="10s")
    parser.add_argument("--replacement", default="8s")
    asked = parser.parse_args()
    runs = Runs(asked)
    first, _, last = asked.seeds.partition("-")
    for seed in range(int(first), int(last or first) + 1):
        runs.run(seed)
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS))
    for seed in sorted(int(re.search(r"\d+", file.name)[0]) for file in runs.folder.glob("elastic-*.json")):
        for form in ("waits", "elastic"):
            print("| " + " | ".join(map(str, runs.row(seed, form))) + " |")
    for name in ("costs", *(f"elastic-{seed}" for seed in range(int(first), int(last or first) + 1))):
        costs = runs.record(name, [])["recovery"]["costs"]
        fewer = ", ".join(f"{each['step_s'] * 1e3:.2f} with {each['replicas']}" for each in costs["reduced"])
        print(f"{name}: step {costs['step_s'] * 1e3:.2f} ms{', ' + fewer if fewer else ''}, restart "
              f"{costs['restart_s']:.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
