#!/usr/bin/env python3
"""Makes the tables of measured operator times in analysis/silicon/tables/.

    results/published/import_silicon.py FOLDER [--out analysis/silicon/tables] [--check]

FOLDER holds the measurements of ai-dynamo/aiconfigurator as CSV files, one row per shape, times in seconds.
Its README describes how they were measured.

A table is a text file of sections. A section starts with `[name]`. Its next line names the key columns and,
after `|`, the last axis with its values. Each further line has the keys and one time per value, in
microseconds with four digits, empty if not measured.

--check compares with the present tables and writes nothing. Ends with 77 if FOLDER is missing.
"""
import argparse
import csv
import gzip
import sys
from collections import defaultdict
from pathlib import Path

SOURCE = ("# ai-dynamo/aiconfigurator@095f58a51c4ca8e61b66ec108d86f223f8d559ce (NVIDIA, Apache-2.0), "
          "measured times; "
          "microseconds\n# Made by results/published/import_silicon.py; analysis/silicon/README.md describes "
          "the columns.\n")
FRAMEWORKS = ("trtllm_s", "sglang_s", "vllm_s")


def rows_of(path):
    opened = gzip.open(path, "rt") if path.suffix == ".gz" else open(path, encoding="utf-8")
    with opened as file:
        return list(csv.DictReader(file))


def number(text):
    value = float(text)
    return int(value) if value == int(value) else value


def microseconds(seconds):
    text = f"{seconds * 1e6:.4g}"
    return f"{float(text):.0f}" if "e+" in text else text


def least(row):
    """The least of what the frameworks took: the nearest to attention alone, for they also fill a cache."""
    times = [float(row[column]) for column in FRAMEWORKS if row[column]]
    return min(times) if times else None


def column(name):
    return lambda row: float(row[name]) if row[name] else None


def first_of(*names):
    return lambda row: next((float(row[name]) for name in names if row[name]), None)


def section(name, rows, keys, axis, time):
    """The lines of a section; none where nothing was measured."""
    lines = defaultdict(dict)
    for row in rows:
        seconds = time(row)
        if seconds is not None:
            lines[tuple(number(row[key]) if row[key][:1].isdigit() else row[key]
                        for key in keys)][number(row[axis])] = seconds
    if not lines:
        return []
    values = sorted({value for line in lines.values() for value in line})
    text = [f"[{name}]", ",".join(keys) + f"|{axis}," + ",".join(map(str, values))]
    for key in sorted(lines, key=lambda k: tuple((isinstance(part, str), part) for part in k)):
        cells = [microseconds(lines[key][value]) if value in lines[key] else "" for value in values]
        text.append(",".join(map(str, key)) + "," + ",".join(cells).rstrip(","))
    return text


def products(accelerator, rows):
    tables = {}
    for kind in ("bf16", "fp8", "fp8_block", "nvfp4"):
        chosen = [row for row in rows if row["type"] == kind]
        # TensorRT-LLM measured few of A100's products; cuBLAS is what all frameworks call in bf16.
        burst = first_of("trtllm_s", "sglang_s") if kind == "bf16" else column("trtllm_s")
        text = section("burst", chosen, ("n", "k"), "m", burst)
        text += section("sustained", chosen, ("n", "k"), "m", column("sustained_s"))
        if text:
            tables[f"products/{kind}_{accelerator}.csv"] = text
    return tables


def attention(accelerator, rows):
    for row in rows:
        row["group"] = str(float(row["heads"]) / float(row["kv_heads"]))
    tables = {}
    for kind in ("bf16", "fp8"):
        text = section("forward", [row for row in rows if row["type"] == kind],
                       ("head", "window", "batch", "heads", "group"), "sequence", least)
        if text:
            tables[f"attention/{kind}_{accelerator}.csv"] = text
    return tables


def experts(accelerator, rows):
    for row in rows:
        row["skew"] = {"uniform": "0", "power1.01": "1.01", "power1.2": "1.2"}[row["distribution"]]
    tables = {}
    for kind in ("bf16", "fp8", "fp8_block", "nvfp4"):
        text = section("forward", [row for row in rows if row["type"] == kind],
                       ("hidden", "ffn", "choices", "experts", "skew", "tp", "ep"), "tokens",
                       column("trtllm_s"))
        if text:
            tables[f"experts/{kind}_{accelerator}.csv"] = text
    return tables


def by_accelerator(rows, keys, axis, times):
    text = []
    for accelerator in sorted({row["accelerator"] for row in rows}):
        chosen = [row for row in rows if row["accelerator"] == accelerator]
        for suffix, time in times:
            text += section(f"{accelerator} {suffix}".strip(), chosen, keys, axis, time)
    return text


def tables_of(folder):
    tables = {}
    for stem, make in (("gemm", products), ("attention", attention), ("moe", experts)):
        for path in sorted(folder.glob(f"{stem}_*.csv.gz")):
            tables.update(make(path.name[len(stem) + 1:-len(".csv.gz")], rows_of(path)))
    collectives = rows_of(folder / "nccl.csv")
    text = []
    for operation in sorted({row["operation"] for row in collectives}):
        chosen = [row for row in collectives if row["operation"] == operation]
        text += by_accelerator(chosen, ("ranks",), "bytes", ((operation, column("newest_s")),))
    tables["collectives.csv"] = text
    tables["casts.csv"] = by_accelerator(rows_of(folder / "quantize.csv"), ("m",), "k",
                                         (("amax", column("amax_s")), ("cast", column("cast_s"))))
    tables["latent_attention.csv"] = by_accelerator(rows_of(folder / "mla.csv.gz"), ("batch", "heads"),
                                                    "sequence",
                                                    (("", least),))
    tables["token_exchange.csv"] = by_accelerator(
        rows_of(folder / "deepep.csv.gz"),
        ("table", "nodes", "ranks", "hidden", "choices", "experts", "processors"), "tokens",
        (("dispatch", column("dispatch_s")), ("combine", column("combine_s"))))
    tables["rack_exchange.csv"] = by_accelerator(
        rows_of(folder / "alltoall_nvl72.csv"),
        ("kernel", "operation", "type", "hidden", "choices", "experts", "ranks"), "tokens",
        (("", column("seconds")),))
    return {name: SOURCE + "\n".join(text) + "\n" for name, text in tables.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("analysis/silicon/tables"))
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if not options.folder.is_dir():
        print(f"{options.folder}: not here")
        return 77
    different = []
    for name, text in tables_of(options.folder).items():
        path = options.out / name
        if options.check:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                different.append(name)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for name in different:
        print(f"{name}: found other times than in {options.folder}, expected the same; make it anew")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
