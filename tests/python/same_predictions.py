#!/usr/bin/env python3
"""Draws configurations and holds the package's predictions against the program's, character by character.

same_predictions.py PROGRAM [COUNT]: all against `plumbline ask`, every tenth against `predict --json`.
"""

import json
import random
import subprocess
import sys

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

import plumbline

CHOICES = {
    "model": ["llama-3.1-8b", "gpt2-124m", "mixtral-8x7b", "qwen2.5-0.5b"],
    "hardware": ["h100-sxm-80gb", "a100-sxm-80gb", "b200-sxm-180gb", "mi300x"],
    "tensor_model_parallel_size": [1, 2, 4, 8],
    "pipeline_model_parallel_size": [1, 2, 4],
    "data_parallel_size": [1, 2, 4],
    "global_batch_size": [16, 64, 256],
    "micro_batch_size": [1, 2],
    "seq_length": [512, 4096],
    "precision": ["bf16", "bf16", "fp32"],
    "pipeline_schedule": ["1f1b", "1f1b", "interleaved", "gpipe", "zb-h1", "v-half"],
    "virtual_pipeline_chunks": [1, 1, 1, 2],
    "zero_stage": [0, 1, 2, 3],
    "sequence_parallel": [True, False],
    "recompute_granularity": ["none", "selective", "full"],
    "software": ["plumbline", "megatron-core", "torchtitan"],
}


def drawn(generator):
    kept = {key: generator.choice(values) for key, values in CHOICES.items() if generator.random() < 0.8}
    return {"model": "gpt2-124m", "hardware": "h100-sxm-80gb", **kept}


def words(keys):
    for key, value in keys.items():
        yield from ("--set", f"{key}={str(value).lower() if isinstance(value, bool) else value}")


def main():
    program, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 500
    generator = random.Random(62)
    drawings = [drawn(generator) for _ in range(count)]
    requests = "".join(json.dumps({"ask": "predict", "full": True, "keys": keys}) + "\n" for keys in drawings)
    told = subprocess.run([program, "ask"], input=requests, capture_output=True, text=True, check=True).stdout
    predicted = 0
    for i, (keys, line) in enumerate(zip(drawings, told.splitlines(), strict=True)):
        theirs = json.loads(line)
        try:
            ours = plumbline.predict(keys).to_dict()
        except plumbline.PlumblineError as error:
            assert str(error) == theirs.get("error"), (keys, str(error), theirs)
            assert error.exit_code == theirs["exit_code"]
            continue
        predicted += 1
        for key, value in ours.items():
            assert json.dumps(value) == json.dumps(theirs[key]), (keys, key)
        if predicted % 10:
            continue
        command = subprocess.run(
            [program, "--quiet", "predict", "--json", *words(keys)],
            capture_output=True,
            text=True,
            check=False,
        )
        record = json.loads(command.stdout)
        for key in ("config", "model", "prediction", "trust"):
            assert json.dumps(record[key]) == json.dumps(ours[key]), (keys, key)
        assert command.returncode == (0 if ours["prediction"]["fits"] else 3)
    assert predicted > 0.4 * count, predicted
    print(f"{count} configurations, {predicted} predicted, no difference")


if __name__ == "__main__":
    main()
