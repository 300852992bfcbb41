#!/usr/bin/env python3
"""Compares `plumbline bench collective` with bare MPI, run alternately.

    collective_agreement.py PROGRAM INDEPENDENT [--ranks N] [--rounds N] [--sizes MIN:MAX:FACTOR]

INDEPENDENT is tests/bench/measure/collectives/independent_timing.cpp, built. For each collective: the ratio
of the times, ours over bare MPI's, by size (median over rounds of neighbouring runs), its median over sizes,
and the load average meanwhile. Exit code 0 when the medians lie within --bound.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys


def ours(program, kind, ranks, sizes):
    """Seconds by size, out of place."""
    out = subprocess.run([program, "bench", "collective", kind, "--ranks", str(ranks), "--sizes", sizes, "--json",
                          "--time-limit", "0.3"], check=True, capture_output=True, text=True).stdout
    return {row["size"]: row["time"] for row in json.loads(out) if not row["inPlace"]}


def bare(program, kind, ranks, sizes):
    least, most, factor = sizes.split(":")
    words = ["mpirun", "--allow-run-as-root", "--bind-to", "core" if ranks <= os.cpu_count() else "none",
             "--oversubscribe", "-n", str(ranks), program, kind, least, most, factor]
    lines = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split("\n")
    return {int(line.split()[0]): float(line.split()[1]) for line in lines if line}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("independent")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", default="8:16777216:4", help="whole numbers of bytes")
    parser.add_argument("--bound", type=float, default=0.10)
    given = parser.parse_args()
    good = True
    for kind in ("all-reduce", "all-to-all"):
        ratios = {}
        for _ in range(given.rounds):
            mine = ours(given.program, kind, given.ranks, given.sizes)
            others = bare(given.independent, kind, given.ranks, given.sizes)
            for size in mine.keys() & others.keys():
                ratios.setdefault(size, []).append(mine[size] / others[size])
        by_size = {size: statistics.median(values) for size, values in sorted(ratios.items())}
        middle = statistics.median(by_size.values())
        good = good and abs(middle - 1) <= given.bound
        print(f"{kind}, {given.ranks} ranks, {given.rounds} rounds: median ratio {middle:.3f} "
              f"(load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors)")
        print("  " + ", ".join(f"{size}: {ratio:.2f}" for size, ratio in by_size.items()))
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
