#!/usr/bin/env python3
"""Measures opening, showing and exporting a matrix of a hundred thousand cells: time and memory.

    tests/large_store.py [PROGRAM] [--cells N] [--records FILE.jsonl]

PROGRAM defaults to build/release/bench/plumbline. Writes a store of N records: those of FILE (default: the
recorded demo matrix) over and over with other ids, seeds and sequence lengths. Then asks `compare` for every
format. Prints processor seconds, peak memory and the size of the output.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

FORMATS = ["table", "csv", "json", "megatron-bridge", "google-benchmark", "html"]


def peak_of(command, out):
    """Exit status, processor seconds and MiB of a command. It is the only child of the process that
    measures."""
    code = ("import resource, subprocess, sys; "
            "done = subprocess.run(sys.argv[2:], stdout=open(sys.argv[1], 'w')); "
            "used = resource.getrusage(resource.RUSAGE_CHILDREN); "
            "print(done.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)")
    said = subprocess.run([sys.executable, "-c", code, str(out), *command], capture_output=True, text=True,
                          check=True).stdout
    status, seconds, mebibytes = said.split()
    return int(status), float(seconds), float(mebibytes)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", nargs="?", default="build/release/bench/plumbline")
    parser.add_argument("--cells", type=int, default=100_000)
    root = Path(__file__).resolve().parent.parent
    parser.add_argument("--records", default=str(root / "results/recorded/xeon-2-cores/demo.jsonl"))
    arguments = parser.parse_args()
    records = [json.loads(line) for line in Path(arguments.records).read_text().splitlines() if line]
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with open(folder / "results.jsonl", "w") as out:
            for cell in range(arguments.cells):
                record = dict(records[cell % len(records)])
                record["id"] = f"cell-{cell}"
                record["config"] = dict(record["config"], seed=cell // 100, seq_length=128 * (1 + cell % 100))
                out.write(json.dumps(record, separators=(",", ":")) + "\n")
        size = (folder / "results.jsonl").stat().st_size / 2**20
        print(f"{arguments.cells} cells, {size:.0f} MiB")
        for kind in FORMATS:
            status, seconds, mebibytes = peak_of([arguments.program, "--quiet", "compare", str(folder),
                                                  "--format", kind],
                                                 folder / "out")
            written = (folder / "out").stat().st_size / 2**20
            print(f"{kind:<17} exit {status}  {seconds:7.1f} s  {mebibytes:7.0f} MiB  "
                  f"writes {written:6.1f} MiB", flush=True)
            failed += status != 0
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
