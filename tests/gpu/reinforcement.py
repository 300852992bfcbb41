#!/usr/bin/env python3
"""Steps of GRPO and PPO on a GPU against a CPU: ids, losses, memory of every phase.

    tests/gpu/reinforcement.py PLUMBLINE OUT.jsonl [--jobs N]

In fp32 a run in each placement, some on two ranks, gives the rewards and losses of a CPU to 1e-4: other ids
have other rewards. Phases take the predicted memory, a refit with messages that to 5 %. Ends with 1 when a
run differs.
"""
import argparse
import functools
import json
import os
import sys
import tempfile

import ranks

LOSS_TOLERANCE = 1e-4
REFIT_TOLERANCE = 0.05  # of buffers for messages
NUMBERS = ("rewards", "losses", "kl", "critic_losses")
OWN_RANK = {"rollout_world_size": 1, "rollout_tensor_model_parallel_size": 1,
            "rollout_pipeline_model_parallel_size": 1}
RUNS = [  # task, placement, tensor, more settings
    ("grpo", "resident", 1, {}),
    ("ppo", "colocated", 1, {"reward_model": json.dumps({**ranks.MODEL, "num_hidden_layers": 2})}),
    ("ppo", "colocated", 2, {"rollout_tensor_model_parallel_size": 1,
                             "rollout_pipeline_model_parallel_size": 2}),
    ("ppo", "split", 1, OWN_RANK), ("grpo", "one_step_off", 1, OWN_RANK),
]


def number_failures(name, found, wanted):
    failures = []
    for key in ("staleness", "refit_sent_bytes"):
        if found[key] != wanted[key]:
            failures.append(f"{name}: {key} {found[key]}, a CPU has {wanted[key]}")
    for key in NUMBERS:
        ours, theirs = found.get(key, []), wanted.get(key, [])  # kept for a critic alone
        if len(ours) != len(theirs) or not all(abs(one - other) <= LOSS_TOLERANCE * max(1, abs(other))
                                               for one, other in zip(ours, theirs)):
            failures.append(f"{name}: {key} {ours}, a CPU has {theirs}")
    return failures


def memory_failures(name, found):
    failures = []
    for phase in found["phases"]:
        predicted = phase.get("predicted_bytes", 0)
        sends = phase["phase"] == "refit" and found["refit_sent_bytes"] > 0
        tolerance = REFIT_TOLERANCE if sends else 0
        if predicted > 0 and not abs(phase["peak_bytes"] - predicted) <= tolerance * predicted:
            failures.append(f"{name}: {phase['phase']} takes {phase['peak_bytes']} bytes, predicted "
                            f"{predicted}")
    return failures


def check_run(plumbline, config, out, case, backend="cuda"):
    """Failures of one run."""
    task, placement, tensor, more = case
    name = f"{task} {placement} tp{tensor}"
    settings = ranks.settings_of(tensor, 1, 1, {"task": task, "rollout_placement": placement, **more}, "fp32")
    found, problem = ranks.run(plumbline, config, {**settings, "backend": backend})
    if found is None:
        return [f"{name}: {problem}"]
    wanted, problem = ranks.run(plumbline, config, {**settings, "backend": "cpu"})
    if wanted is None:
        return [f"{name} on the CPU: {problem}"]
    out.write(json.dumps({"check": name, "losses_of_cpu": wanted["losses"], **found}) + "\n")
    return number_failures(name, found, wanted) + memory_failures(name, found)


def step_config(hardware):
    return {"model": ranks.MODEL, "hardware": hardware, "num_prompts_per_step": 4,
            "num_generations_per_prompt": 4, "prompt_length": 24, "max_new_tokens": 16, "seq_length": 40,
            "micro_batch_size": 2, "global_batch_size": 8, "kl_loss_coef": 0.1, "optimizer": "sgd",
            "learning_rate": 0.1, "warmup_steps": 1, "steps": 2}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plumbline")
    parser.add_argument("out")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, open(options.out, "w", encoding="utf-8",
                                                       buffering=1) as out:
        config = os.path.join(folder, "config.yaml")
        with open(config, "w", encoding="utf-8") as file:
            json.dump(step_config(os.environ.get("PLUMBLINE_GPU_HARDWARE", "h100-sxm-80gb")), file)
        failures = ranks.at_once(options.jobs, [functools.partial(check_run, options.plumbline, config, out,
                                                                  case) for case in RUNS])
    for failure in failures:
        print(failure)
    print(f"{len(RUNS)} runs, {len(failures)} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
