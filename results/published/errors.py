#!/usr/bin/env python3
"""Errors of predictions for published runs, one line per figure: what `predict` takes its intervals from.

    errors.py PLUMBLINE FOLDER... [--out errors.csv] [--check]

Runs `PLUMBLINE validate --json` for the built-in tables and for every FOLDER of tables. --check compares with
the file, and ends with 1 if it is out of date, with 77 if a folder is missing.
"""

import argparse
import csv
import io
import json
import pathlib
import subprocess
import sys

from checked_file import write_or_check

COLUMNS = "origin quantity kind software hardware gpus tokens_per_gpu peak_tflops bits ratio".split()
HERE = pathlib.Path(__file__).resolve().parent
FILE = HERE.parent.parent / "analysis" / "published" / "errors.csv"


def comparisons(plumbline, folder):
    command = [plumbline, "validate", "--json"] + (["--tables", str(folder)] if folder else [])
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return [row for table in json.loads(done.stdout)["tables"] for row in table["comparisons"]]


def errors_text(plumbline, folders):
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    lines = []
    for folder in [None, *folders]:
        for row in comparisons(plumbline, folder):
            if "run" not in row:
                continue
            run = row["run"]
            for key in ("tokens_per_gpu", "peak_tflops"):
                run[key] = f"{run[key]:.6g}"
            lines.append({**run, "quantity": row["quantity"],
                          "ratio": f"{row['published'] / row['predicted']:.4f}"})
    writer.writerows(sorted(lines, key=lambda line: [str(line[key]) for key in COLUMNS]))
    return out.getvalue()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("plumbline")
    parser.add_argument("folders", nargs="*", metavar="FOLDER")
    parser.add_argument("--out", type=pathlib.Path, default=FILE)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    missing = [folder for folder in options.folders if not pathlib.Path(folder).is_dir()]
    if missing:
        print(f"skipped: {', '.join(missing)}: not here")
        return 77
    text = errors_text(options.plumbline, options.folders)
    return write_or_check(options.out, text, options.check, "errors.py")


if __name__ == "__main__":
    sys.exit(main())
