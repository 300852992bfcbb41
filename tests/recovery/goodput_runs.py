#!/usr/bin/env python3
"""Goodput of runs with injected failures, measured and predicted beforehand, one row each.

    tests/recovery/goodput_runs.py PROGRAM FOLDER [SEEDS] [--steps N] [--mtbf 5s] [--kinds kill,hang]

SEEDS: 1 to 20, or a part such as 6-10. Records lie in FOLDER; those already there are not run again, so a
campaign can be made in parts. By turns checkpoints halt the run or are written alongside; every fourth run
has 8 ranks, the others 4. A prediction takes its costs from a run of the same ranks and form, made first,
with another seed and at most four failures.

Losses must equal those of the undisturbed run, to the bit, and to 1e-5 in steps after a change of the split.
Prints a table of all records in FOLDER, and the medians of the differences.
"""
import argparse
import json
import re
import shutil
import statistics
import sys
from pathlib import Path

import support

COLUMNS = ["seed", "ranks", "form", "failures", "in starts", "total s", "goodput %",
           "predicted: these failures %",
           "any run % (nine in ten)", "difference", "any run"]
STEPS_IN_ANOTHER_SPLIT = 20


class Campaign:
    def __init__(self, asked):
        self.asked = asked
        self.program = Path(asked.program).resolve()
        self.folder = Path(asked.folder).resolve()
        self.folder.mkdir(exist_ok=True)
        support.write_config(self.folder / "run.yaml", hidden=asked.hidden, batch=16)

    def record(self, name, arguments):
        file = self.folder / f"{name}.json"
        if not file.exists():
            file.write_text(json.dumps(support.measured(self.program, self.folder, arguments)))
        return json.loads(file.read_text())

    def split(self, ranks, steps):
        return ["--pp", "2", "--dp", str(ranks // 2), "--zero-stage", "1", "--steps", str(steps)]

    def undisturbed(self, ranks, steps):
        return self.record(f"undisturbed-{ranks}-{steps}", self.split(ranks, steps))["measurement"]["losses"]

    def disturbed(self, name, ranks, form, failures, costs=()):
        if not (self.folder / f"{name}.json").exists():
            shutil.rmtree(self.folder / f"{name}-saved", ignore_errors=True)  # of a campaign that was stopped
        return self.record(name, self.split(ranks, self.asked.steps) + [
            "--checkpoint-dir", f"{name}-saved", "--checkpoint-interval", str(self.asked.interval),
            "--inject-failures",
            f"{failures},kinds={self.asked.kinds},hang_timeout={self.asked.hang_timeout}", *costs,
            *(["--async-save"] if form == "alongside" else [])])

    def run(self, seed):
        ranks = 8 if seed % 4 == 0 else 4
        form = "alongside" if seed % 2 or seed % 8 == 0 else "halting"
        losses = self.undisturbed(ranks, self.asked.steps)
        costs = f"costs-{ranks}-{form}"
        most = 2 * len(self.asked.kinds.split(","))
        self.disturbed(costs, ranks, form, f"mtbf={self.asked.mtbf},seed=1000,most={most}")
        record = self.disturbed(f"run-{seed}", ranks, form, f"mtbf={self.asked.mtbf},seed={seed}",
                                ["--recovery-costs", f"{costs}.json"])
        if record["measurement"]["losses"] != losses:
            raise SystemExit(f"seed {seed}: losses differ from those of the undisturbed run")
        self.go_on(seed, ranks)

    def go_on(self, seed, ranks):
        """In another split, from the last checkpoint."""
        steps = self.asked.steps + STEPS_IN_ANOTHER_SPLIT
        later = self.record(f"later-{seed}", [
            "--tp", "2", "--steps", str(steps), "--checkpoint-dir", f"run-{seed}-saved", "--resume"])
        losses = self.undisturbed(ranks, steps)
        for step, (one, other) in enumerate(zip(later["measurement"]["losses"], losses, strict=True)):
            if abs(one - other) > 1e-5 * abs(other):
                raise SystemExit(f"seed {seed}: loss of step {step + 1} in another split {one}, expected "
                                 f"{other}")


def row_of(seed, record):
    recovery = record["recovery"]
    predicted = recovery["predicted"]
    goodput = recovery["goodput"]
    ranks = record["config"]["world_size"]
    # A failure during a start: nothing was lost, since nothing ran.
    starts = sum(1 for failure in recovery["failures"] if failure["lost_s"] == 0)
    differences = 100 * (predicted["of_seed"] - goodput), 100 * (predicted["mean"] - goodput)
    form = "alongside" if record["measurement"]["checkpoints"]["async"] else "halting"
    return [seed, ranks, form, len(recovery["failures"]), starts, f"{recovery['total_s']:.1f}",
            f"{100 * goodput:.1f}",
            f"{100 * predicted['of_seed']:.1f}",
            f"{100 * predicted['mean']:.1f} ({100 * predicted['low']:.0f} to {100 * predicted['high']:.0f})",
            *(f"{each:+.1f}" for each in differences)], differences


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("seeds", nargs="?", default="1-20")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--interval", type=int, default=50)
    parser.add_argument("--mtbf", default="5s")
    parser.add_argument("--kinds", default="kill,hang")
    parser.add_argument("--hang-timeout", default="500ms")
    asked = parser.parse_args()
    campaign = Campaign(asked)
    first, _, last = asked.seeds.partition("-")
    for seed in range(int(first), int(last or first) + 1):
        campaign.run(seed)
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS))
    of_seed, of_any = [], []
    records = {int(re.search(r"\d+", file.name)[0]): file for file in campaign.folder.glob("run-*.json")}
    for seed in sorted(records):
        row, (one, other) = row_of(seed, json.loads(records[seed].read_text()))
        of_seed.append(abs(one))
        of_any.append(abs(other))
        print("| " + " | ".join(map(str, row)) + " |")
    print(f"\n{len(of_seed)} runs, losses alike to the bit, and within 1e-5 in another split; |predicted - "
          f"measured|: "
          f"median {statistics.median(of_seed):.1f} points for the failures of the seed (largest "
          f"{max(of_seed):.1f}), "
          f"{statistics.median(of_any):.1f} for any run (largest {max(of_any):.1f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
