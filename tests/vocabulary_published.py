#!/usr/bin/env python3
"""Compares a matrix of vocabulary placements with tables 5 and 6 of arXiv:2411.05288.

    vocabulary_published.py RECORDS.jsonl TABLE.csv

For every row and vocabulary prints the iteration time over the baseline's and the peak memory: published,
predicted, measured (emulated), and the largest errors. The published MFU is FLOPs over time x 320 TFLOP/s
with equal FLOPs for all methods of a row. So the ratio of times is the inverse ratio of MFUs; peaks are GiB.
"""
import csv
import json
import sys

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

METHODS = {"vocab-1": "Vocab-1", "vocab-2": "Vocab-2", "interlaced": "Interlaced"}
SIZES = {32000: "32k", 64000: "64k", 128000: "128k", 256000: "256k"}


def model_of(record):
    model = record["config"]["model"]
    return json.loads(model) if isinstance(model, str) else model


def method_of(config):
    unsplit = "Baseline" if config["layer_distribution"] == "even" else "Redis"
    return METHODS.get(config["vocab_parallel"], unsplit)


def key_of(record):
    config, model = record["config"], model_of(record)
    return (str(config["pipeline_model_parallel_size"]), str(model["n_layer"]), str(model["n_embd"]),
            str(config["seq_length"]), method_of(config),
            SIZES[model["vocab_size"]])


def main(arguments):
    records_path, table_path = arguments
    records = {}
    with open(records_path) as lines:
        for line in lines:
            record = json.loads(line)
            if record["status"] == "ok":
                records[key_of(record)] = record
    worst = {"predicted ratio": 0.0, "measured ratio": 0.0, "predicted peak": 0.0, "measured peak": 0.0}
    print(f"{'row':26} {'method':10} {'v':>4}  time/baseline: published predicted measured   "
          f"peak GiB: published predicted measured")
    with open(table_path) as table:
        rows = list(csv.DictReader(table))
    baseline = {(r["pp_gpus"], r["seq"]): r for r in rows if r["method"] == "Baseline"}
    compared = 0
    for row in rows:
        for size in SIZES.values():
            place = (row["pp_gpus"], row["layers"], row["hidden"], row["seq"])
            found = records.get((*place, row["method"], size))
            base = records.get((*place, "Baseline", size))
            if found is None or base is None or not row[f"mfu_{size}"]:
                continue
            compared += 1
            published = float(baseline[row["pp_gpus"], row["seq"]][f"mfu_{size}"]) / float(row[f"mfu_{size}"])
            ratios, peaks = {}, {}
            for name, part in (("predicted", "prediction"), ("measured", "measurement")):
                ratios[name] = found[part]["time"]["step_s"] / base[part]["time"]["step_s"]
                peaks[name] = found[part]["memory"]["peak_bytes"] / 2**30
            peak = float(row[f"peak_gb_{size}"])
            for name in ratios:
                worst[f"{name} ratio"] = max(worst[f"{name} ratio"], abs(ratios[name] / published - 1))
                worst[f"{name} peak"] = max(worst[f"{name} peak"], abs(peaks[name] / peak - 1))
            print(f"p{place[0]} L{place[1]} h{place[2]} s{place[3]:<6} {row['method']:10} {size:>4}"
                  f"                 {published:9.3f} {ratios['predicted']:9.3f} {ratios['measured']:8.3f}"
                  f"             {peak:9.2f} {peaks['predicted']:9.2f} {peaks['measured']:8.2f}")
    print(f"{compared} cells; largest errors: " + ", ".join(f"{k} {v:.1%}" for k, v in worst.items()))
    return 0 if compared > 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
