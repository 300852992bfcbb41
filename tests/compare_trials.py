#!/usr/bin/env python3
"""Does `compare` see a regression where there is none, and one where there is one?

    tests/compare_trials.py PROFILE.json [PROGRAM] [--matrix FILE] [--repeats N] [--slowed N]
                            [--slowdown FACTOR]

Runs the same matrix again and again and compares every store with the one before. Each cell that `compare`
calls a loss or a gain is a false positive. Then, as often as --slowed gives, runs it with every rank of every
cell computing FACTOR times as long (`slow_ranks`). Compares with the last store of before, and counts the
cells called a loss. PROFILE.json is written by `plumbline calibrate --out` on this machine; nothing else
should run meanwhile.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path


def run_matrix(options, folder, factor=1.0):
    command = [options.program, "matrix", options.matrix, "--hardware", options.profile, "--out", str(folder),
               "--quiet"]
    if factor != 1:
        command += ["--set", "slow_ranks=" + ",".join(f"{rank}:{factor}" for rank in range(options.ranks))]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {ended.returncode}\n{ended.stderr}")


def marked(folder):
    records = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    measured = [record for record in records if record.get("measurement")]
    return sum(record["measurement"].get("disturbance", {}).get("disturbed", False)
               for record in measured), len(measured)


def with_ids_of(base, folder):
    """Records of a folder under the ids of the same cells in another; ids are of the whole configuration."""
    ids = [json.loads(line)["id"] for line in (base / "results.jsonl").read_text().splitlines()]
    records = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    if len(ids) != len(records):
        sys.exit(f"{folder}: found {len(records)} cells, expected {len(ids)}")
    for record, same in zip(records, ids):
        record["id"] = same
    path = folder / "renamed.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def compared(options, before, after):
    """Lines of changed cells: [(word, line)]."""
    ended = subprocess.run([options.program, "compare", str(before), str(after)], capture_output=True,
                           text=True, check=False)
    if ended.returncode not in (0, 1):
        sys.exit(f"compare: exit code {ended.returncode}\n{ended.stderr}")
    lines = [line.strip() for line in ended.stdout.splitlines()]
    return [line for line in lines if line.startswith(("LOSS", "gain"))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("profile")
    parser.add_argument("program", nargs="?", default="build/release/bench/plumbline")
    parser.add_argument("--matrix", default="bench/matrices/distillation_cpu.yaml")
    parser.add_argument("--ranks", type=int, default=2, metavar="N", help="of every cell")
    parser.add_argument("--repeats", type=int, default=20, metavar="N")
    parser.add_argument("--slowed", type=int, default=10, metavar="N")
    parser.add_argument("--slowdown", type=float, default=1.08, metavar="FACTOR")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run_matrix(options, folder / "0")
        wrong = cells = 0
        for repeat in range(1, options.repeats + 1):
            run_matrix(options, folder / str(repeat))
            changes = compared(options, folder / str(repeat - 1), folder / str(repeat))
            disturbed, measured = marked(folder / str(repeat))
            wrong += len(changes)
            cells += measured
            print(f"same {repeat}: {measured} cells, {disturbed} marked, {len(changes)} changes", *changes,
                  sep="\n    ", flush=True)
        found = slowed = all_found = 0
        for trial in range(1, options.slowed + 1):
            run_matrix(options, folder / f"slow{trial}", options.slowdown)
            changes = compared(options, folder / str(options.repeats),
                               with_ids_of(folder / str(options.repeats), folder / f"slow{trial}"))
            losses = [line for line in changes if line.startswith("LOSS")]
            _, measured = marked(folder / f"slow{trial}")
            found += len(losses)
            slowed += measured
            all_found += bool(losses)
            print(f"slowed {trial}: {len(losses)} of {measured} cells called a loss", *changes, sep="\n    ",
                  flush=True)
    print(f"\nsame program: {wrong} of {cells} cells called a loss or a gain in {options.repeats} repeats")
    print(f"slowed {options.slowdown} times: {found} of {slowed} cells called a loss, in {all_found} of "
          f"{options.slowed} trials at least one")
    return 0


if __name__ == "__main__":
    sys.exit(main())
