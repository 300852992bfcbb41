#!/usr/bin/env python3
"""Every model family on one GPU: loss and gradients in fp32 after two updates, against a CPU.

    tests/gpu/families.py PLUMBLINE OUT.jsonl [--jobs N] [--from NAME]

The models are those of tests/golden/families; a bundle has their configurations beside this file. Tolerances
are those of ranks.py. MoE models: the loss only, to 1e-3, since a logit rounded otherwise may choose another
expert. Ends with 1 when a family differs.
"""
import argparse
import functools
import json
import os
import sys
import tempfile

import gradients
import ranks

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDERS = (os.path.join(HERE, "families"), os.path.join(HERE, "..", "golden", "families"))
# Gradients that are zero up to rounding, such as that of the keys' bias, which a softmax does not see.
ZERO = 1e-6


def families_folder():
    return next(folder for folder in FOLDERS if os.path.isdir(folder))


def family_config(name, backend):
    """The golden model's run with random weights and tokens."""
    folder = os.path.join(families_folder(), name)
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = {"model": json.load(file), "backend": backend, "warmup_steps": 1, "steps": 2}
    with open(os.path.join(folder, "run.yaml"), encoding="utf-8") as file:
        for line in file:
            key, _, value = line.strip().partition(": ")
            if value and key not in ("model", "weights", "data") and not key.startswith("#"):
                config[key] = json.loads(value) if value[0].isdigit() else value
    return config


def not_zero(tensors, like):
    return {name: values for name, values in tensors.items()
            if name not in like or max(map(abs, like[name]), default=0) > ZERO}


def check_family(plumbline, name, out, backend="cuda"):
    """Failures of one family."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "config.yaml")
        config = family_config(name, backend)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        record, found, problem = ranks.run_with_gradients(plumbline, path, {})
        if record is not None:
            reference, wanted, problem = ranks.run_with_gradients(plumbline, path, {"backend": "cpu"})
        if problem:
            return [f"{name}: {problem}"]
    loss, loss_of_cpu = (one["measurement"]["loss"] for one in (record, reference))
    found, wanted = not_zero(found, wanted), not_zero(wanted, wanted)
    out.write(json.dumps({"check": f"family {name}", "loss": loss, "loss_of_cpu": loss_of_cpu,
                          "gradient_difference": gradients.worst_difference(found, wanted)}) + "\n")
    if any("experts" in key for key in config["model"]):
        return [] if abs(loss - loss_of_cpu) <= 1e-3 * abs(loss_of_cpu) else [f"{name}: loss {loss}, a CPU "
                                                                              f"has {loss_of_cpu}"]
    return ranks.fp32_failure(name, record, found, (loss_of_cpu, wanted))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plumbline")
    parser.add_argument("out")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--from", dest="first", default="",
                        help="the first family, in the order of their names")
    options = parser.parse_args()
    with open(options.out, "w", encoding="utf-8", buffering=1) as out:
        names = [name for name in sorted(os.listdir(families_folder())) if name >= options.first]
        failures = ranks.at_once(options.jobs,
                                 [functools.partial(check_family, options.plumbline, name, out)
                                  for name in names])
    for failure in failures:
        print(failure)
    print(f"{len(names)} families, {len(failures)} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
