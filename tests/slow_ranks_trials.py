#!/usr/bin/env python3
"""Is a slow rank named, and is nobody named where there is none?

    tests/slow_ranks_trials.py [PROGRAM] [--backend emulated|cpu] [--ranks N] [--trials N] [--factor F]
                               [--steps N] [--seed S] [--out FILE]

PROGRAM defaults to build/release/bench/plumbline. Every trial is two runs of N replicas of a small model. In
one of them one rank, another one each time, computes F times as long (slow_ranks); in the other none does.
Each run's record goes through `plumbline stragglers --record`. Prints a line per trial. At the end: how often
the slow rank was named, alone, and how often anybody was named in runs without one. The exit status is 1 when
fewer than 95 % were named, or anybody wrongly. 40 trials of 8 emulated ranks, and 40 of 4 real ones on two
processors, take minutes.
"""
import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

CONFIGS = {
    "emulated": ["--backend", "emulated", "--hardware", "h100-sxm-80gb", "--seq-length", "2048"],
    "cpu": ["--backend", "cpu", "--seq-length", "64"],
}
STEPS = {"emulated": 3, "cpu": 36}
MODELS = {
    "emulated": "qwen2.5-0.5b",
    "cpu": {"model_type": "llama", "hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 4,
            "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 1024,
            "max_position_embeddings": 64,
            "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True, "hidden_act": "silu",
            "initializer_range": 0.02},
}


def plumbline(program, *arguments):
    done = subprocess.run([program, "--quiet", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(arguments)}: exit {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def named(arguments, folder, slow):
    """The ranks that are named in one run, with their factors and standard errors."""
    model = MODELS[arguments.backend]
    if isinstance(model, dict):
        (folder / "model.json").write_text(json.dumps(model))
        model = str(folder / "model.json")
    record = folder / "record.json"
    record.write_text(plumbline(arguments.program, "run", model, *CONFIGS[arguments.backend],
                                "--data-parallel-size",
                                str(arguments.ranks), "--global-batch-size", str(4 * arguments.ranks),
                                "--warmup-steps", "1",
                                "--steps", str(arguments.steps or STEPS[arguments.backend]),
                                "--slow-ranks", slow, "--json"))
    said = json.loads(plumbline(arguments.program, "stragglers", "--record", str(record), "--json"))
    return said["records"][0]["slow_ranks"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", nargs="?", default="build/release/bench/plumbline")
    parser.add_argument("--backend", choices=sorted(CONFIGS), default="emulated")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--factor", type=float, default=1.1)
    parser.add_argument("--steps", type=int, help="3 of emulated ranks, 36 of real ones unless given")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", help="write what was named in every trial as JSON")
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    trials = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for trial in range(arguments.trials):
            slow = chance.randrange(arguments.ranks)
            found = named(arguments, folder, f"{slow}:{arguments.factor}")
            quiet = named(arguments, folder, "none")
            trials.append({"slow": slow, "named": found, "named_without": quiet})
            text = ", ".join(f"rank {each['rank']} x{each['factor']:.3f} ({each['standard_errors']:.1f})"
                             for each in found)
            print(f"{trial + 1}: rank {slow} is slow; named: {text or 'nobody'}; without: "
                  f"{quiet or 'nobody'}", flush=True)
    right = sum([each["rank"] for each in trial["named"]] == [trial["slow"]] for trial in trials)
    wrong = sum(bool(trial["named_without"]) for trial in trials)
    print(f"{arguments.backend}, {arguments.ranks} ranks, factor {arguments.factor}: named in {right} of "
          f"{len(trials)}, "
          f"somebody wrongly in {wrong} of {len(trials)}")
    if arguments.out:
        Path(arguments.out).write_text(json.dumps(trials) + "\n")
    return int(right < 0.95 * len(trials) or wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
