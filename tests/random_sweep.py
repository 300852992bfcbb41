#!/usr/bin/env python3
"""Errors of predicted step times over random configurations. Draws them by seed, predicts and measures each.

    tests/random_sweep.py PROFILE.json [PROGRAM] [--seed S] [--configurations N] [--out FILE.jsonl]
                          [--seconds LIMIT]

PROFILE.json is written by `plumbline calibrate --out` on this machine; PROGRAM defaults to
build/release/bench/plumbline. Drawn are family (llama, mistral, qwen2, gpt2), layers, hidden size 16 to 1024,
sequence 16 to 2048, every split of 1, 2 and 4 ranks, sequence parallelism, ZeRO, recomputation, schedule,
vocabulary modes and precision. A refused configuration is drawn again. For each, as many steps are timed as
are predicted to take half a second (--measure), at least five: fewer of a millisecond would be a sample of
the scheduler. The same seed draws the same configurations. No configuration starts after LIMIT seconds. Every
record goes to FILE.jsonl as it comes; those already there are not measured again.

Prints a line per configuration, then median, ninetieth percentile and worst of the step-time error at current
machine speed over undisturbed cells (and over all). Then the residuals by common settings, largest first.
"""
import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FAMILIES = ("llama", "mistral", "qwen2", "gpt2")
SPLITS = [(tp, pp, dp) for tp in (1, 2, 4) for pp in (1, 2, 4) for dp in (1, 2, 4)
          if tp * pp * dp in (1, 2, 4)]
SCHEDULES = ("1f1b", "gpipe", "interleaved", "zb-h1", "zb-h2", "zb-v", "v-half", "v-min", "dualpipev")
MOST_STEPS = 500
MOST_WORK = 4e12  # FLOPs of a step: some tens of seconds on two processors


def log_uniform(draw, low, high, step):
    """A multiple of `step`, equally likely in every doubling."""
    value = low * (high / low) ** draw.random()
    return max(step, round(value / step) * step)


def draw_model(draw):
    family = draw.choice(FAMILIES)
    heads = draw.choice((1, 2, 4, 8, 16))
    hidden = max(log_uniform(draw, 16, 1024, 2 * heads), 2 * heads)
    layers = draw.choice((1, 2, 4, 8, 12))
    vocabulary = log_uniform(draw, 256, 16384, 1)
    if family == "gpt2":
        return {"model_type": "gpt2", "n_layer": layers, "n_embd": hidden, "n_head": heads,
                "vocab_size": vocabulary,
                "n_positions": 2048, "n_ctx": 2048, "layer_norm_epsilon": 1e-5,
                "activation_function": "gelu_new"}
    model = {"model_type": family, "num_hidden_layers": layers, "hidden_size": hidden,
             "num_attention_heads": heads,
             "num_key_value_heads": draw.choice([k for k in (1, 2, 4, 8, 16) if heads % k == 0]),
             "intermediate_size": max(2, round(hidden * draw.uniform(1.5, 4) / 2) * 2),
             "vocab_size": vocabulary,
             "max_position_embeddings": 2048, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
             "tie_word_embeddings": draw.random() < 0.5}
    if family == "mistral":
        model["sliding_window"] = None
    return model


def draw_configuration(draw):
    model = draw_model(draw)
    tp, pp, dp = draw.choice(SPLITS)
    micro_batch = draw.choice((1, 1, 2))
    microbatches = draw.choice((2, 4, 8)) * (pp if pp > 1 else 1)
    keys = {
        "tp": tp, "pp": pp, "dp": dp,
        "seq_length": log_uniform(draw, 16, 2048, 4),
        "micro_batch_size": micro_batch,
        "global_batch_size": micro_batch * microbatches * dp,
        "precision": draw.choice(("fp32", "bf16")),
        "sequence_parallel": tp > 1 and draw.random() < 0.5,
        "zero_stage": draw.choice((0, 1, 2, 3)) if dp > 1 else 0,
        "recompute_granularity": draw.choice(("none", "none", "selective", "full")),
        "pipeline_schedule": draw.choice(SCHEDULES) if pp > 1 else "1f1b",
        "vocab_parallel": draw.choice(("none", "none", "none", "vocab-1", "vocab-2")) if pp > 1 else "none",
    }
    return model, keys


def work(model, keys):
    """FLOPs of a step, roughly."""
    hidden = model.get("hidden_size", model.get("n_embd"))
    layers = model.get("num_hidden_layers", model.get("n_layer"))
    sequence = keys["seq_length"]
    per_token = 6 * (layers * (12 * hidden**2 + hidden * sequence) + hidden * model["vocab_size"])
    return per_token * sequence * keys["global_batch_size"]


def text_of(model, keys, profile, steps):
    return json.dumps({"model": model, "hardware": profile, "steps": steps, "warmup_steps": 2,
                       "timeout_s": 300, **keys})


def ask(program, command, text):
    """The program's answer for a configuration, or None when it is refused or the program fails."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "configuration.json"
        path.write_text(text)
        ended = subprocess.run([program, command, str(path),
                                "--json"] + (["--quiet"] if command == "run" else []),
                               capture_output=True, text=True, timeout=900, check=False)
    if ended.returncode == 2:
        return None
    if ended.returncode != 0:
        print(f"exit code {ended.returncode}: {ended.stderr.strip().splitlines()[-1:]}\n  {text}",
              file=sys.stderr)
        return None
    return json.loads(ended.stdout)


def steps_for(program, model, keys, profile, options):
    """Number of timed steps; None when the configuration is refused."""
    record = ask(program, "predict", text_of(model, keys, profile, options.steps))
    if record is None or record.get("prediction") is None:
        return None
    step = record["prediction"]["time"]["step_s"]
    return min(MOST_STEPS, max(options.steps, round(options.measure / step)))


def bucket(value, edges):
    lower = [edge for edge in edges if value >= edge]
    return f"from {lower[-1]}" if lower else f"below {edges[0]}"


def properties(row):
    model, keys = row["model"], row["keys"]
    hidden = model.get("hidden_size", model.get("n_embd"))
    heads = model.get("num_attention_heads", model.get("n_head"))
    yield "family", model["model_type"]
    yield "hidden", bucket(hidden, (16, 32, 64, 128, 256, 512))
    yield "hidden a multiple of 16", hidden % 16 == 0
    yield "head size", bucket(hidden // heads, (2, 16, 64, 128))
    yield "sequence", bucket(keys["seq_length"], (16, 64, 256, 1024))
    yield "ranks", keys["tp"] * keys["pp"] * keys["dp"]
    for key in ("tp", "pp", "dp", "precision", "sequence_parallel", "zero_stage", "recompute_granularity",
                "pipeline_schedule", "vocab_parallel", "micro_batch_size"):
        yield key, keys[key]
    yield "step", bucket(1e3 * row["measured"], (1, 10, 100, 1000)) + " ms"


def error_of(record):
    error = record["error"]
    return error.get("probed_step_time") if error.get("probed_step_time") is not None else error["step_time"]


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def report(rows):
    quiet = [row for row in rows if not row["disturbed"]]
    for name, some in (("undisturbed", quiet), ("all", rows)):
        if not some:
            continue
        sizes = [abs(row["error"]) for row in some]
        print(f"{name}: {len(some)} configurations, |step time error| median "
              f"{100 * statistics.median(sizes):.1f} %, "
              f"ninetieth percentile {100 * quantile(sizes, 0.9):.1f} %, worst {100 * max(sizes):.1f} %")
    groups = {}
    for row in quiet or rows:
        for key, value in properties(row):
            groups.setdefault((key, value), []).append(row["error"])
    lines = [(statistics.median(errors), statistics.median([abs(e) for e in errors]), len(errors), key, value)
             for (key, value), errors in groups.items() if len(errors) >= 3]
    print(f"\n{'what they have in common':<40} {'count':>5} {'median error':>13} {'median |error|':>15}")
    for signed, size, count, key, value in sorted(lines, key=lambda line: -line[1]):
        print(f"{key + ' ' + str(value):<40} {count:>5} {100 * signed:>+12.1f} % {100 * size:>13.1f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("profile")
    parser.add_argument("program", nargs="?", default="build/release/bench/plumbline")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--configurations", type=int, default=120, metavar="N")
    parser.add_argument("--out", metavar="FILE.jsonl")
    parser.add_argument("--seconds", type=float, default=1e9, metavar="LIMIT")
    parser.add_argument("--steps", type=int, default=5, metavar="N", help="timed at least")
    parser.add_argument("--measure", type=float, default=0.5, metavar="SECONDS",
                        help="timed steps last together")
    options = parser.parse_args()
    profile = str(Path(options.profile).resolve())
    out = Path(options.out) if options.out else None
    known = {}
    if out and out.exists():
        for line in out.read_text().splitlines():
            row = json.loads(line)
            known[row["text"]] = row
    draw = random.Random(options.seed)
    start = time.monotonic()
    rows = []
    while len(rows) < options.configurations and time.monotonic() - start < options.seconds:
        model, keys = draw_configuration(draw)
        if work(model, keys) > MOST_WORK:
            continue
        steps = steps_for(options.program, model, keys, profile, options)
        if steps is None:
            continue
        text = text_of(model, keys, profile, steps)
        row = known.get(text)
        if row is None:
            record = ask(options.program, "run", text)
            if record is None or record["status"] != "ok":
                continue
            for _ in range(2):  # as `matrix` does
                if not record["measurement"].get("disturbance", {}).get("disturbed", False):
                    break
                record = ask(options.program, "run", text) or record
            row = {"text": text, "model": model, "keys": keys, "error": error_of(record),
                   "calibrated_error": record["error"]["step_time"],
                   "measured": record["measurement"]["time"]["step_s"],
                   "disturbed": record["measurement"].get("disturbance", {}).get("disturbed", False),
                   "peak_memory_error": record["error"]["peak_memory"], "record": record}
            if out:
                with out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
        rows.append(row)
        shown = {key: value for key, value in keys.items() if value not in (False, 0, "none")}
        print(f"{len(rows):>4} {100 * row['error']:>+7.1f} % {1e3 * row['measured']:>10.2f} ms "
              f"{'disturbed ' if row['disturbed'] else ''}{model['model_type']} "
              f"{model.get('hidden_size', model.get('n_embd'))} {shown}", flush=True)
        if row["peak_memory_error"] != 0:
            print(f"     memory is off by {row['peak_memory_error']}", flush=True)
    if rows:
        print()
        report(rows)
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
