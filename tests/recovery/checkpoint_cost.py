#!/usr/bin/env python3
"""Costs of a checkpoint that halts the run, and of one written alongside: a table of both, by turns.

    tests/recovery/checkpoint_cost.py PROGRAM [ROUNDS] [--folder DIR]

DIR: folder of the checkpoints, by default the temporary folder.
"""
import argparse
import statistics
import sys
import tempfile
from pathlib import Path

import support


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("rounds", nargs="?", type=int, default=5)
    parser.add_argument("--folder")
    asked = parser.parse_args()
    program = Path(asked.program).resolve()
    print("| ranks | MiB | form | stands still ms | durable ms | step ms | whole run s |")
    print("|---" * 7 + "|")
    with tempfile.TemporaryDirectory(prefix="plumbline-cost-", dir=asked.folder) as name:
        folder = Path(name)
        support.write_config(folder / "run.yaml", hidden=512, layers=2, batch=2, sequence=64, vocabulary=8192)
        ratios = []
        for ranks in (1, 2):
            rows = {"halting": [], "alongside": []}
            for round_number in range(asked.rounds):
                for form in rows:
                    record = support.measured(program, folder, [
                        "--dp", str(ranks), "--zero-stage", "1", "--steps", "24", "--checkpoint-dir",
                        f"saved-{ranks}-{round_number}-{form}", "--checkpoint-interval", "8",
                        "--keep-checkpoints", "1",
                        *(["--async-save"] if form == "alongside" else [])])["measurement"]
                    rows[form].append(record)
            stalls = {}
            for form, records in rows.items():
                saves = [record["checkpoints"] for record in records]
                stalls[form] = statistics.median(save["stall_s"] for save in saves)
                steps = statistics.median(record["time"]["step_s"] for record in records)
                whole = statistics.median(sum(step["step_s"] for step in record["steps"])
                                          for record in records)
                durable = statistics.median(save["durable_s"] for save in saves)
                print(f"| {ranks} | {saves[0]['bytes'] / 2**20:.0f} | {form} | {1e3 * stalls[form]:.1f} | "
                      f"{1e3 * durable:.1f} | {1e3 * steps:.1f} | {whole:.2f} |", flush=True)
            ratios.append(stalls["alongside"] / stalls["halting"])
    print("\nstands still alongside / halting: " + ", ".join(f"{ratio:.2f}" for ratio in ratios))
    return 0


if __name__ == "__main__":
    sys.exit(main())
