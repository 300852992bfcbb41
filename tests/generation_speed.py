#!/usr/bin/env python3
"""Predicted against measured generation, on this machine: prefill, decoding, bytes of the KV cache.

    tests/generation_speed.py PROFILE.json [PROGRAM] [--draws N] [--seed S] [--repeats N]

Draws small models, lengths, batches, precisions and parallel sizes. Predicts each with `plumbline predict`,
then runs it with `plumbline generate`. Prints a line for each, and the median errors. PROFILE.json is written
by `plumbline calibrate --out` on this machine; nothing else should run meanwhile. Exit code 1: a cache
differs.
"""
import argparse
import json
import random
import statistics
import subprocess
import sys


def drawn(random_):
    """Overrides of one configuration, as `plumbline` takes them."""
    heads = random_.choice([4, 8, 12, 16])
    head_dim = random_.choice([32, 64, 128])
    hidden = heads * head_dim
    tensor, pipeline = random_.choice([(1, 1), (1, 1), (2, 1), (1, 2)])
    model = {
        "model_type": random_.choice(["llama", "qwen2"]),
        "hidden_size": hidden,
        "intermediate_size": hidden * random_.choice([2, 3, 4]),
        "num_hidden_layers": random_.choice([2, 4, 6, 8]),
        "num_attention_heads": heads,
        "num_key_value_heads": random_.choice([heads, heads // 2, heads // 4]),
        "vocab_size": random_.choice([1024, 8192, 32768]),
        "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": random_.choice([True, False]),
    }
    if model["num_key_value_heads"] % tensor:
        model["num_key_value_heads"] = heads
    prompt = random_.choice([16, 64, 200, 512])
    fresh = random_.choice([9, 17, 33])
    keys = {
        "model": json.dumps(model),
        "task": "generate",
        "precision": random_.choice(["fp32", "bf16"]),
        "tensor_model_parallel_size": tensor,
        "pipeline_model_parallel_size": pipeline,
        "micro_batch_size": random_.choice([1, 2, 4, 8]),
        "prompt_length": prompt,
        "max_new_tokens": fresh,
        "seq_length": prompt + fresh,
        "seed": random_.randrange(1 << 30),
    }
    return [f"{key}={value}" for key, value in keys.items()]


def output_of(program, command, settings):
    arguments = [program, command, "--json"]
    for setting in settings:
        arguments += ["--set", setting]
    ended = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        sys.exit(f"{' '.join(arguments)}: exit code {ended.returncode}\n{ended.stderr}")
    return json.loads(ended.stdout)


def compared(options, settings):
    """Errors of prefill and decoding; True if every rank's cache is as predicted."""
    predicted = output_of(options.program, "predict", settings + [f"hardware={options.profile}"])
    runs = [output_of(options.program, "generate", settings) for _ in range(options.repeats)]
    prefill = statistics.median(run["prefill_s"] for run in runs)
    decode = statistics.median(run["decode_s_per_pass"] for run in runs)
    caches = [rank["cache_bytes"] for rank in predicted["memory"]["ranks"]]
    measured = runs[0]["cache_bytes"]
    tensor = len(measured) // len(caches)
    same = all(bytes_ == caches[rank // tensor] for rank, bytes_ in enumerate(measured))
    errors = predicted["time"]["prefill_s"] / prefill - 1, predicted["time"]["decode_s"] / decode - 1
    print(f"prefill {prefill * 1e3:9.3f} ms {errors[0] * 100:+6.1f} %   decode {decode * 1e3:8.3f} ms "
          f"{errors[1] * 100:+6.1f} %   cache {'same' if same else 'DIFFERS'}   {' '.join(settings)}",
          flush=True)
    return errors, same


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("profile")
    parser.add_argument("program", nargs="?", default="build/release/bench/plumbline")
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    random_ = random.Random(options.seed)
    results = [compared(options, drawn(random_)) for _ in range(options.draws)]
    for name, index in (("prefill", 0), ("decode", 1)):
        sizes = sorted(abs(errors[index]) for errors, _ in results)
        print(f"{name}: median |error| {statistics.median(sizes) * 100:.1f} %, "
              f"nine in ten within {sizes[int(0.9 * (len(sizes) - 1))] * 100:.1f} %")
    sys.exit(0 if all(same for _, same in results) else 1)


if __name__ == "__main__":
    main()
