#!/usr/bin/env python3
"""Errors of predicted step times by group, of rows that leave settings open, and of pairs of runs that
differ in layout or switches; rows that are not predicted, with the reason.

    groups.py PLUMBLINE FOLDER... [--out groups.txt] [--check]

Runs `PLUMBLINE validate --json --tables FOLDER` for every folder. --check compares with the file, and ends
with 1 if it is out of date, with 77 if a folder is missing.
"""

import argparse
import itertools
import json
import pathlib
import statistics
import subprocess
import sys

from checked_file import write_or_check

# Keys that two layouts of one training may differ in; all others are the same in a pair.
FREE = set("""tensor_model_parallel_size pipeline_model_parallel_size context_parallel_size data_parallel_size
expert_model_parallel_size expert_tensor_parallel_size virtual_pipeline_chunks layer_distribution
sequence_parallel num_layers_per_virtual_pipeline_stage pipeline_schedule zero_bubble_memory micro_batch_size
num_microbatches account_for_embedding_in_pipeline_split account_for_loss_in_pipeline_split
recompute_granularity recompute_modules recompute_method recompute_num_layers zero_stage
num_distributed_optimizer_instances tp_comm_overlap overlap_grad_reduce overlap_param_gather overlap_p2p_comm
align_param_gather overlap_moe_expert_parallel_comm cuda_graph_impl cuda_graph_modules moe_token_dispatcher_type moe_routing
vocab_parallel cp_comm_type other_flags moe_router_force_load_balancing software""".split())
SAME = 0.02  # measured ratios nearer to 1 have no order
# Reasons of rows whose source lacks the GPU, the model, the batch, the layout or what its rate counts.
LACKING = ("GPU is not named", "world_size", "global_batch_size", "seq_length", "layout", "the model",
           "expert_model_parallel_size", "the definition of FLOPs")


def quantile(values, share):
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def tables_of(plumbline, folder):
    command = [plumbline, "validate", "--json", "--tables", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout)["tables"]


def rows_of(tables):
    for table in tables:
        for row in table["comparisons"]:
            if row["quantity"] == "step_s" and row["settings"]:
                yield table["name"], row


def refused_text(tables):
    """Rows without a prediction, by table and reason; row numbers count from 1."""
    text = "\nrows that are not predicted: table, reason, rows\n"
    for table in tables:
        found = {}
        for row in table["skipped"]:
            found.setdefault(row["reason"], []).append(row["row"])
        for reason, rows in sorted(found.items()):
            text += f"{table['name']}: {reason}: {', '.join(map(str, rows))}\n"
    return text


def complete_text(folders):
    """Rows of each folder that print what a run needs, and how many of them are predicted."""
    text = f"\n{'rows that print GPU, model, batch and layout':<60} rows complete predicted  percent\n"
    for name, tables in folders:
        predicted = lacking = skipped = 0
        for table in tables:
            runs = [row for row in table["comparisons"] if row["settings"]]
            predicted += len({(row["label"], str(row["settings"])) for row in runs})
            skipped += len(table["skipped"])
            lacking += sum(any(reason.removeprefix("not modelled yet: ").startswith(LACKING) and
                               reason.endswith(("unstated", "is not printed", "is not named"))
                               for reason in row["reason"].split(", ")) for row in table["skipped"])
        complete = predicted + skipped - lacking
        text += (f"{name:<60}{predicted + skipped:>5}{complete:>9}{predicted:>10}"
                 f"{100 * predicted / complete:>9.1f}\n")
    return text


def precision(settings):
    if settings.get("fp4_format"):
        return "nvfp4"
    if settings.get("precision") == "fp8":
        return "fp8 " + settings.get("fp8_recipe", "delayed")
    return settings.get("precision", "not printed")


def is_moe(settings):
    known = ("mixtral", "qwen3-30b", "qwen3-235b", "deepseek", "kimi", "moe", "nemotron-3")
    experts = settings.get("num_experts") or settings.get("expert_model_parallel_size", "1") != "1"
    return bool(experts) or any(name in settings.get("model", "") for name in known)


def features(settings):
    """Groups that a row belongs to, by feature."""
    size = lambda key: int(settings.get(key) or 1)
    if is_moe(settings):
        graphs = settings.get("cuda_graph_impl") or "none"
        graphs = {"full_iteration": "of the step", "none": "none"}.get(graphs, "of layers")
        yield f"CUDA graphs {graphs}"
        yield "dispatcher " + (settings.get("moe_token_dispatcher_type") or "by software")
        if settings.get("overlap_moe_expert_parallel_comm") == "true":
            yield "overlapped exchanges"
        ranks = size("expert_model_parallel_size")
        yield "EP 1" if ranks == 1 else "EP 2 to 8" if ranks <= 8 else "EP above 8"
    for name, key in (("TP", "tensor_model_parallel_size"), ("PP", "pipeline_model_parallel_size"),
                      ("CP", "context_parallel_size")):
        if size(key) > 1:
            yield f"{name} above 1"
    if settings.get("zero_stage") == "3" or "fsdp" in settings.get("software", ""):
        yield "FSDP"
    if settings.get("recompute_granularity") not in (None, "", "none"):
        yield "recomputation " + settings["recompute_granularity"]


def line(name, errors):
    size = [abs(e) for e in errors]
    return (f"{name:<60}{len(errors):>5}{100 * statistics.median(size):>9.1f}"
            f"{100 * statistics.mean(errors):>+9.1f}"
            f"{100 * quantile(size, 0.9):>9.1f}\n")


def grouped(title, rows, groups):
    text = f"\n{title:<60} rows   median     bias      p90\n"
    found = {}
    for table, row in rows:
        for name in groups(table, row["settings"]):
            found.setdefault(name, []).append(row["error"])
    return text + "".join(line(name, errors) for name, errors in sorted(found.items()))


def is_open(row):
    """True if a row leaves a setting open that matters by a percent or more."""
    return "unstated" in row and row["unstated"]["low"] < row["unstated"]["high"]


def open_text(rows):
    """Rows that leave settings open: error of the likeliest value, rows within the range of all values."""
    title = "rows that leave settings open, by table"
    text = f"\n{title:<60} rows   median     bias      p90  in range  range\n"
    tables = {}
    for table, row in rows:
        tables.setdefault(table, []).append(row)
    for table, members in sorted(tables.items()):
        ranges = [(row["unstated"]["low"], row["unstated"]["high"]) for row in members]
        inside = sum(low <= row["published"] <= high for row, (low, high) in zip(members, ranges))
        width = statistics.mean(100 * (high / low - 1) for low, high in ranges)
        text += f"{line(table, [row['error'] for row in members])[:-1]}{inside:>10}{width:>6.0f}%\n"
    return text if tables else ""


def pairs_text(rows):
    """Pairs of one table and source that train the same on as many GPUs."""
    alike = {}
    for table, row in rows:
        same = tuple(sorted((k, v) for k, v in row["settings"].items() if k not in FREE))
        alike.setdefault((table, row["source"], same), []).append(row)
    tables = {}
    for (table, _, _), members in alike.items():
        for a, b in itertools.combinations(members, 2):
            measured = b["published"] / a["published"]
            if a["settings"] != b["settings"]:
                tables.setdefault(table, []).append((measured, b["predicted"] / a["predicted"]))
    title = "pairs of runs of one training on as many GPUs"
    text = f"\n{title:<60}pairs  ordered    right  ratio's median error\n"
    for table, pairs in sorted(tables.items()) + [("all", sum(tables.values(), []))]:
        ordered = [(m, p) for m, p in pairs if abs(m - 1) > SAME]
        right = sum((m > 1) == (p > 1) for m, p in ordered)
        error = statistics.median(abs(p / m - 1) for m, p in pairs)
        text += f"{table:<60}{len(pairs):>5}{len(ordered):>9}{right:>9}{100 * error:>9.1f}\n"
    return text


def report(plumbline, folders):
    read = [(folder.resolve().name, tables_of(plumbline, folder)) for folder in folders]
    tables = [table for _, found in read for table in found]
    every = list(rows_of(tables))
    rows = [member for member in every if not is_open(member[1])]
    text = "Errors of predicted step times in percent, by group. Made by results/published/groups.py.\n"
    for name, members in (("MoE", [r for r in rows if is_moe(r[1]["settings"])]),
                          ("dense", [r for r in rows if not is_moe(r[1]["settings"])])):
        text += grouped(name, members, lambda *_: ["all"])
        text += grouped(f"{name}, table", members, lambda table, _: [table])
        text += grouped(f"{name}, hardware", members, lambda _, s: [s.get("hardware", "?")])
        text += grouped(f"{name}, precision", members, lambda _, s: [precision(s)])
        text += grouped(f"{name}, feature", members, lambda _, s: features(s))
    text += open_text([member for member in every if is_open(member[1])])
    return text + pairs_text(rows) + complete_text(read) + refused_text(tables)


def main():
    here = pathlib.Path(__file__).parent
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plumbline")
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=here / "groups.txt")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    if not all(folder.is_dir() for folder in arguments.folders):
        print("a folder is missing")
        return 77 if arguments.check else 1
    text = report(arguments.plumbline, arguments.folders)
    return write_or_check(arguments.out, text, arguments.check, "groups.py")


if __name__ == "__main__":
    sys.exit(main())
