#!/usr/bin/env python3
"""Runs that failures are injected into: goodput as measured and as predicted, one row each.

    tests/recovery/goodput_runs.py PROGRAM [RUNS] [--ranks 4] [--steps N] [--mtbf 5s] [--kinds kill,hang]

Losses must be those of the undisturbed run, to the bit. Prints a table, and the median of the differences.
"""
import argparse
import statistics
import sys
import tempfile
from pathlib import Path

import support

COLUMNS = ["seed", "form", "failures", "total s", "step ms", "stall ms", "recovery s", "goodput %", "predicted %",
           "with those that came %", "difference"]


def row_of(record, seed, form):
    recovery = record["recovery"]
    ends = [failure for failure in recovery["failures"] if failure["kind"] != "disk"]
    spent = recovery["detect_s"] + recovery["restart_s"]
    difference = 100 * (recovery["predicted"] - recovery["goodput"])
    observed = 100 * (recovery["predicted_observed"] - recovery["goodput"])
    text = [seed, form, len(recovery["failures"]), f"{recovery['total_s']:.1f}", f"{1e3 * recovery['step_s']:.1f}",
            f"{1e3 * recovery['stall_s']:.1f}", f"{spent / max(len(ends), 1):.2f}", f"{100 * recovery['goodput']:.1f}",
            f"{100 * recovery['predicted']:.1f}", f"{100 * recovery['predicted_observed']:.1f}", f"{difference:+.1f}"]
    return text, difference, observed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("runs", nargs="?", type=int, default=20)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--interval", type=int, default=10)
    parser.add_argument("--mtbf", default="5s")
    parser.add_argument("--kinds", default="kill")
    asked = parser.parse_args()
    program = Path(asked.program).resolve()
    split = ["--pp", "2", "--dp", str(asked.ranks // 2), "--zero-stage", "1", "--steps", str(asked.steps)]
    differences, observed = [], []
    with tempfile.TemporaryDirectory(prefix="plumbline-goodput-") as name:
        folder = Path(name)
        support.write_config(folder / "run.yaml", hidden=128)
        losses = support.measured(program, folder, split)["measurement"]["losses"]
        print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS), flush=True)
        for seed in range(1, asked.runs + 1):
            form = "alongside" if seed % 2 else "halting"
            record = support.measured(program, folder, split + [
                "--checkpoint-dir", f"saved{seed}", "--checkpoint-interval", str(asked.interval),
                "--inject-failures", f"mtbf={asked.mtbf},kinds={asked.kinds},seed={seed},hang_timeout=3s",
                *(["--async-save"] if seed % 2 else [])])
            if record["measurement"]["losses"] != losses:
                raise SystemExit(f"seed {seed}: losses differ from those of the undisturbed run")
            text, difference, of_those = row_of(record, seed, form)
            differences.append(abs(difference))
            observed.append(abs(of_those))
            print("| " + " | ".join(map(str, text)) + " |", flush=True)
    print(f"\n{asked.runs} runs of {asked.ranks} ranks, losses alike to the bit; |predicted - measured|: median "
          f"{statistics.median(differences):.1f} points, with the failures that came {statistics.median(observed):.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
