#!/usr/bin/env python3
"""Several ranks on one GPU through NCCL against a single rank; steps with dropout and MoE against the CPU.

    tests/gpu/ranks.py PLUMBLINE OUT.jsonl [--short] [--jobs N] [--only CHECK]...

--short, for a slot of minutes: nine splits over two ranks, the most telling first, two of them in bf16 too.
Also sums of attention in any order, the watchdog, and a look at the device's memory. --jobs: splits at once
(1); one that fails beside others runs again by itself. --only: splits, fp8, dropout, ... (FULL below).

Every split gives the loss (to 1e-4) and, tensor by tensor, the gradients (to 1e-3) that a CPU has in fp32,
after two updates. In bf16 it gives the loss of a single rank to 3e-2. With deterministic_mode it gives twice
the same bits; without, the loss with it to 3e-2. With linear layers in FP8, on a GPU that has FP8, it gives
the loss of a single rank in bf16 (to 5e-2), twice the same bits. In fp16, with a scaled loss,
it gives those gradients to 1e-2. A rank that stops is named within the watchdog's time. A rank over its
memory budget says so. Ends with 1 when a check fails. Hanging ranks are ended; the other checks still run.
"""
import argparse
import concurrent.futures
import functools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

import gradients

# The watchdog names the hanging operation before the run's time limit ends it.
WATCHDOG_S = 60
LIMIT_S = 150
JOBS = 1  # splits at once

MODEL = {
    "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000, "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False,
}
SPLITS = [  # tensor, pipeline, data, more settings
    (1, 1, 1, {}), (2, 1, 1, {}), (1, 2, 1, {}), (1, 1, 2, {}), (2, 2, 1, {}),
    (2, 1, 1, {"sequence_parallel": "true"}),
    (1, 2, 1, {"pipeline_schedule": "interleaved", "virtual_pipeline_chunks": "2"}),
    (1, 2, 1, {"pipeline_schedule": "zb-h1"}), (1, 1, 2, {"zero_stage": "3"}),
    (1, 1, 4, {"zero_stage": "3", "zero_hpz_partition_size": "2"}),
    (1, 1, 4, {"zero_stage": "1", "num_distributed_optimizer_instances": "2"}),
    (1, 1, 4, {"zero_stage": "2", "num_distributed_optimizer_instances": "2",
               "overlap_param_gather": "true"}),
    (2, 1, 1, {"optimizer": "muon"}), (1, 1, 2, {"optimizer": "muon", "zero_stage": "1"}),
    (1, 1, 2, {"optimizer": "lion"}),
    (1, 1, 2, {"context_parallel_size": "2"}),
    (1, 1, 2, {"context_parallel_size": "2", "cp_comm_type": "all_gather"}),
    (1, 1, 2, {"context_parallel_size": "2", "cp_comm_type": "a2a"}),
    (1, 1, 4, {"context_parallel_size": "4", "cp_comm_type": "a2a+p2p",
               "hierarchical_context_parallel_sizes": "2,2"}),
    (1, 2, 2, {"context_parallel_size": "2", "pipeline_schedule": "zb-h1"}),
    (1, 2, 1, {"vocab_parallel": "vocab-1"}),
    (1, 2, 1, {"vocab_parallel": "vocab-2", "pipeline_schedule": "v-half"}),
    (2, 1, 2, {"sequence_parallel": "true", "nccl_ub": "true"}), (1, 2, 1, {"nccl_ub": "true"}),
    (1, 1, 2, {"zero_stage": "3", "nccl_ub": "true"}),
    (1, 1, 1, {"cpu_offloading_num_layers": "3"}),
    (1, 2, 1, {"cpu_offloading_num_layers": "1", "pipeline_schedule": "zb-h1"}),
    (1, 2, 1, {"defer_embedding_wgrad_compute": "true"}),
    (1, 2, 1, {"pipeline_schedule": "gpipe"}), (1, 1, 2, {"zero_stage": "1", "nccl_ub": "true"}),
    (2, 1, 1, {"attention_backend": "unfused"}), (2, 2, 1, {"vocab_parallel": "vocab-2"}),
    (2, 2, 1, {"vocab_parallel": "vocab-1", "sequence_parallel": "true"}),
    (1, 2, 2, {"vocab_parallel": "vocab-2", "zero_stage": "3"}),
]

# Two ranks each: NCCL's documented limit for one GPU.
SHORT_SPLITS = [
    (2, 1, 1, {}), (1, 1, 2, {}), (1, 2, 1, {"pipeline_schedule": "zb-h1"}),
    (2, 1, 1, {"sequence_parallel": "true"}),
    (1, 1, 2, {"optimizer": "muon", "zero_stage": "1"}),
    (1, 1, 2, {"zero_stage": "3"}), (1, 2, 1,
                                     {"pipeline_schedule": "interleaved", "virtual_pipeline_chunks": "2"}),
    (1, 1, 2, {"context_parallel_size": "2"}),
    (1, 2, 1, {"vocab_parallel": "vocab-2", "pipeline_schedule": "v-half"}),
    (1, 1, 2, {"context_parallel_size": "2", "cp_comm_type": "a2a"}),
]
SHORT_IN_BF16 = 2  # of the first

DROPOUT = {"hidden_dropout": "0.1", "attention_dropout": "0.1"}
# Head size 64: attention on tensor cores in bf16, without in fp32.
DROPOUT_SPLITS = [
    (1, 1, 1, {}), (1, 1, 1, {"recompute_granularity": "full", "recompute_num_layers": "1"}),
    (2, 1, 1, {"sequence_parallel": "true"}), (1, 2, 1, {"pipeline_schedule": "zb-h1"}),
    (1, 1, 2, {"zero_stage": "3"}),
    (1, 2, 1, {"vocab_parallel": "vocab-2"}), (1, 1, 2, {"context_parallel_size": "2"}),
    (1, 2, 1, {"mtp_num_layers": "1"}), (1, 1, 1, {"attention_backend": "unfused"}),
    (2, 1, 1, {"attention_backend": "unfused", "sequence_parallel": "true",
               "recompute_granularity": "selective"}),
]


MIXTURES = {
    "mixtral": {**MODEL, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2},
    "deepseek_v3": {**MODEL, "model_type": "deepseek_v3", "num_key_value_heads": 4,
                    "moe_intermediate_size": 128,
                    "first_k_dense_replace": 1, "n_routed_experts": 16, "num_experts_per_tok": 4,
                    "n_shared_experts": 1,
                    "n_group": 4, "topk_group": 2, "q_lora_rank": 96, "kv_lora_rank": 64,
                    "qk_nope_head_dim": 64,
                    "qk_rope_head_dim": 32, "v_head_dim": 64},
    "qwen3_moe": {**MODEL, "model_type": "qwen3_moe", "head_dim": 64, "moe_intermediate_size": 128,
                  "num_experts": 8,
                  "num_experts_per_tok": 2, "norm_topk_prob": True},
}
MIXTURE_SPLITS = [
    (1, 1, 1, {}), (1, 1, 1, {"moe_expert_capacity_factor": "1", "moe_pad_expert_input_to_capacity": "true"}),
    (2, 1, 1, {"sequence_parallel": "true"}), (1, 2, 1, {"pipeline_schedule": "zb-h1"}),
    (1, 1, 2, {"zero_stage": "3"}),
    (1, 1, 2, {"expert_model_parallel_size": "2"}),
    (1, 1, 2, {"expert_model_parallel_size": "2", "moe_token_dispatcher_type": "allgather"}),
    (1, 1, 2, {"moe_router_load_balancing_type": "global_aux_loss", "moe_aux_loss_coeff": "1",
               "micro_batch_size": "1"}),
    (1, 1, 2, {"expert_model_parallel_size": "2", "overlap_moe_expert_parallel_comm": "true"}),
    (1, 1, 4, {"expert_model_parallel_size": "2", "zero_stage": "1", "overlap_param_gather": "true"}),
    (1, 1, 4, {"expert_model_parallel_size": "2", "zero_stage": "2",
               "num_distributed_optimizer_instances": "2"}),
    (1, 1, 2, {"context_parallel_size": "2", "moe_aux_loss_coeff": "1", "mtp_num_layers": "1"}),
    (1, 1, 2, {"context_parallel_size": "2", "cp_comm_type": "a2a"}),
    (1, 1, 2, {"expert_model_parallel_size": "2", "cpu_offloading_num_layers": "2"}),
    (2, 1, 1, {"sequence_parallel": "true", "tp_comm_overlap": "true"}),
]
# Names of qwen3_moe, whose queries and keys are normed.
NORMED_SPLITS = [(1, 1, 2, {"context_parallel_size": "2", "cp_comm_type": "a2a"})]
SHARED_EXPERT_SPLITS = [(1, 1, 2, {"expert_model_parallel_size": "2", "moe_shared_expert_overlap": "true"})]
# mixtral, in bf16 on both backends: routing depends on rounded values.
FP8_MIXTURE_SPLITS = [
    (1, 1, 1, {"fp8_recipe": "delayed"}),
    (1, 1, 1, {"fp8_recipe": "tensorwise", "pipeline_schedule": "zb-h1"}),
    (2, 1, 1, {"fp8_recipe": "delayed", "sequence_parallel": "true"}),
    (1, 1, 2, {"fp8_recipe": "tensorwise", "expert_model_parallel_size": "2", "zero_stage": "3"}),
    (1, 1, 2, {"fp8_recipe": "delayed", "expert_model_parallel_size": "2", "zero_stage": "1",
               "overlap_param_gather": "true",
               "recompute_granularity": "selective", "recompute_modules": "layernorm,moe_act"}),
    (1, 1, 2, {"fp8_recipe": "delayed", "expert_model_parallel_size": "2", "zero_stage": "1",
               "overlap_param_gather": "true",
               "overlap_moe_expert_parallel_comm": "true", "mtp_num_layers": "1"}),
    (1, 1, 2, {"fp8_recipe": "tensorwise", "expert_model_parallel_size": "2",
               "cpu_offloading_num_layers": "2"}),
]


FP8 = {"fp8_format": "hybrid"}
FP8_SPLITS = [
    (1, 1, 1, {}), (1, 1, 1, {"recompute_granularity": "full", "recompute_num_layers": "1"}), (2, 1, 1, {}),
    (2, 1, 1, {"sequence_parallel": "true"}), (1, 2, 1, {}), (1, 2, 1, {"pipeline_schedule": "zb-h1"}),
    (1, 2, 1, {"pipeline_schedule": "interleaved", "virtual_pipeline_chunks": "2"}), (1, 1, 2, {}),
    (1, 1, 2, {"zero_stage": "1"}), (1, 1, 2, {"zero_stage": "3"}), (2, 1, 2, {"sequence_parallel": "true"}),
    (1, 1, 1, {"fp8_format": "e4m3"}), (1, 1, 1, {"cpu_offloading_num_layers": "3"}),
]


FP16_SPLITS = [
    (1, 1, 1, {}), (1, 1, 1, {"loss_scale": "auto", "initial_loss_scale": "65536"}),
    (2, 1, 1, {"sequence_parallel": "true"}), (1, 2, 1, {"pipeline_schedule": "zb-h1"}),
    (1, 1, 2, {"zero_stage": "1", "grad_dtype": "same"}),
]


LORA = {"frozen": "lora", "lora_rank": "8", "lora_targets": "all"}
LORA_SPLITS = [
    (1, 1, 1, {}), (2, 1, 1, {"sequence_parallel": "true"}), (1, 2, 1, {}), (1, 1, 2, {"zero_stage": "1"}),
    (1, 1, 1, {"lora_targets": "qkv", "recompute_granularity": "full", "recompute_num_layers": "1"}),
]


def command(plumbline, config, settings):
    line = [plumbline, "run", config, "--json"]
    for key, value in settings.items():
        line += ["--set", f"{key}={value}"]
    return line


def settings_of(tensor, pipeline, data, more, precision):
    return {"tensor_model_parallel_size": tensor, "pipeline_model_parallel_size": pipeline,
            "world_size": tensor * pipeline * data, "precision": precision, **more}


def finished(line, environment):
    """Exit code, standard output and standard error of a command. The code is None for one that took LIMIT_S;
    all of its processes are ended."""
    with subprocess.Popen(line, env={"PLUMBLINE_NCCL_TIMEOUT": str(WATCHDOG_S), **environment}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True) as process:
        try:
            return (lambda texts: (process.returncode, *texts))(process.communicate(timeout=LIMIT_S))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return (None, *process.communicate())


def run(plumbline, config, settings, options=()):
    # The fastest product differs from process to process, and with it the bits.
    environment = {**os.environ, "PLUMBLINE_GEMM_CHOICE": "first"}
    code, output, errors = finished([*command(plumbline, config, settings), *options], environment)
    if code is None:
        return None, f"hangs: ended after {LIMIT_S} s: {errors.strip().splitlines()[-1:]}"
    if code != 0:
        return None, f"exit code {code}: {errors.strip().splitlines()[-1:]}"
    return json.loads(output), ""


def run_with_gradients(plumbline, config, settings):
    """The record, the gradients of the last step, and what went wrong."""
    with tempfile.TemporaryDirectory(dir=os.path.dirname(config)) as folder:
        path = os.path.join(folder, "gradients.safetensors")
        record, problem = run(plumbline, config, settings, ["--save-gradients", path])
        return (None, {}, problem) if record is None else (record, gradients.read(path), "")


def fp32_reference(plumbline, config):
    """Loss and gradients of a CPU, and what went wrong."""
    record, found, problem = run_with_gradients(plumbline, config,
                                                {**settings_of(1, 1, 1, {}, "fp32"), "backend": "cpu"})
    return (record["measurement"]["loss"], found) if record else None, problem


def fp32_failure(name, record, found, reference):
    loss, wanted = record["measurement"]["loss"], reference[0]
    if not abs(loss - wanted) <= 1e-4 * abs(wanted):
        return [f"{name}: loss {loss}, a CPU has {wanted}"]
    worst, tensor = gradients.worst_difference(found, reference[1])
    if worst <= gradients.TOLERANCE:
        return []
    return [f"{name}: the gradient of {tensor} is {worst:.2g} of its norm away from a CPU's, expected at "
            f"most {gradients.TOLERANCE}"]


def check_fp32_split(plumbline, config, name, settings, reference, out):
    """Loss and gradients of a split in fp32; returns the loss, None where it did not run, and failures."""
    record, found, problem = run_with_gradients(plumbline, config, settings)
    if record is None:
        return None, [f"{name}: {problem}"]
    measured = record["measurement"]
    out.write(json.dumps({"check": name, "loss": measured["loss"], "loss_of_cpu": reference[0],
                          "gradient_norm": gradients.total_norm(found),
                          "gradient_norm_of_cpu": gradients.total_norm(reference[1]),
                          "gradient_difference": gradients.worst_difference(found, reference[1]),
                          "computed_by": (measured.get("gpu") or {}).get("computed_by")}) + "\n")
    return measured["loss"], fp32_failure(name, record, found, reference)


# An update of this size moves the gradients of narrow types by more than rounding does: a step without its
# update makes 0.8 of their norm, other roundings 0.01 in bf16 and 0.17 in FP8 (this model on a CPU).
LARGE_UPDATES = {"learning_rate": "2e-3"}
BF16_TOLERANCE = 0.05
FP8_TOLERANCE = 0.4
MIXTURE_TOLERANCE = 0.2  # of the worst tensor: a token may go to another expert


def gradient_failure(name, found, wanted, tolerance, difference=gradients.total_difference):
    apart = difference(found, wanted)
    apart = apart[0] if isinstance(apart, tuple) else apart
    if apart <= tolerance:
        return []
    return [f"{name}: gradients are {apart:.2g} of their norm away, expected at most {tolerance}"]


def check_bf16_split(plumbline, config, name, settings, reference, out):
    """`reference`: loss and gradients of a single rank."""
    record, found, problem = run_with_gradients(plumbline, config, {**settings, **LARGE_UPDATES})
    if record is None:
        return None, [f"{name}: {problem}"]
    loss, wanted = record["measurement"]["loss"], reference[0]
    out.write(json.dumps({"check": name, "loss": loss, "loss_of_one_rank": wanted,
                          "gradient_difference": gradients.total_difference(found, reference[1])}) + "\n")
    if not abs(loss - wanted) <= 3e-2 * abs(wanted):
        return loss, [f"{name}: loss {loss}, a single rank has {wanted}"]
    return loss, gradient_failure(name, found, reference[1], BF16_TOLERANCE)


def check_same_bits(plumbline, config, name, settings, loss):
    again, problem = run(plumbline, config, settings)
    if again is None:
        return [f"{name}, the second time: {problem}"]
    found = again["measurement"]["loss"]
    return [] if found == loss else [f"{name}: loss {loss}, and {found} the second time"]


def at_once(jobs, checks):
    """Failures of all checks, `jobs` of them at a time. A check that fails beside others, but does not hang,
    runs again alone."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        ends = [(check, pool.submit(check)) for check in checks]
        found = [(check, end.result()) for check, end in ends]
    kept = []
    for check, failures in found:
        if jobs > 1 and failures and not any("hangs" in failure for failure in failures):
            alone = check()
            if not alone:
                print(f"note: passed alone, after it failed beside others: {failures[0]}", flush=True)
            failures = alone
        kept += failures
    return kept


def check_listed(plumbline, config, out, splits, in_bf16, twice, jobs=1):
    """`in_bf16`, `twice`: of the number of a split."""
    reference, problem = fp32_reference(plumbline, config)
    if reference is None:
        return [f"fp32 on the CPU: {problem}"]
    alone, found, problem = run_with_gradients(plumbline, config,
                                               settings_of(1, 1, 1, LARGE_UPDATES, "bf16"))
    if alone is None:
        return [f"a single rank in bf16: {problem}"]

    def check(number, precision):
        tensor, pipeline, data, more = splits[number]
        name = f"{precision} tp{tensor} pp{pipeline} dp{data} {more or ''}".strip()
        settings = settings_of(tensor, pipeline, data, more, precision)
        if precision == "fp32":
            loss, failures = check_fp32_split(plumbline, config, name, settings, reference, out)
        else:
            settings = {**settings, **LARGE_UPDATES}
            loss, failures = check_bf16_split(plumbline, config, name, settings,
                                              (alone["measurement"]["loss"], found), out)
        if loss is not None and twice(number, precision):
            failures += check_same_bits(plumbline, config, name, settings, loss)
        return failures

    asked = [(number, precision) for number in range(len(splits))
             for precision in (("fp32", "bf16") if in_bf16(number) else ("fp32",))]
    return at_once(jobs, [functools.partial(check, number, precision) for number, precision in asked])


def check_short_splits(plumbline, config, out):
    return check_listed(plumbline, config, out, SHORT_SPLITS, lambda number: number < SHORT_IN_BF16,
                        lambda number, precision: number == 0 and precision == "bf16", JOBS)


def check_splits(plumbline, config, out):
    return check_listed(plumbline, config, out, SPLITS, lambda number: number % 3 == 0,
                        lambda number, precision: precision == "bf16", JOBS)


def check_any_order(plumbline, config, out):
    """Attention's backward with sums in any order against one that gives the same bits every time."""
    found = {}
    for mode in ("true", "false"):
        # Several blocks of keys, whose sums come in an order of their own.
        settings = {**settings_of(1, 1, 1, {}, "bf16"), "deterministic_mode": mode, "seq_length": "512"}
        record, problem = run(plumbline, config, settings)
        if record is None:
            return [f"deterministic_mode {mode}: {problem}"]
        measured = record["measurement"]
        found[mode] = measured["loss"]
        out.write(json.dumps({"check": f"deterministic_mode {mode}", "loss": measured["loss"],
                              "computed_by": (measured.get("gpu") or {}).get("computed_by")}) + "\n")
    if abs(found["false"] - found["true"]) <= 3e-2 * abs(found["true"]):
        return []
    return [f"deterministic_mode false: loss {found['false']}, with true {found['true']}"]


def check_fp8(plumbline, config, out):
    record, found, problem = run_with_gradients(plumbline, config,
                                                settings_of(1, 1, 1, LARGE_UPDATES, "bf16"))
    if record is None:
        return [f"a single rank in bf16: {problem}"]
    reference = record["measurement"]["loss"], found
    return at_once(JOBS, [functools.partial(check_fp8_split, plumbline, config, out, reference,
                                            {"fp8_recipe": recipe}, split)
                          for recipe in ("delayed", "tensorwise") for split in FP8_SPLITS])


def check_fp16(plumbline, config, out):
    reference, problem = fp32_reference(plumbline, config)
    if reference is None:
        return [f"fp32 on the CPU: {problem}"]
    failures = []
    for tensor, pipeline, data, more in FP16_SPLITS:
        name = f"fp16 tp{tensor} pp{pipeline} dp{data} {more or ''}".strip()
        settings = settings_of(tensor, pipeline, data, {"loss_scale": "1024", **more}, "fp16")
        record, found, problem = run_with_gradients(plumbline, config, settings)
        if record is None:
            failures.append(f"{name}: {problem}")
            continue
        loss = record["measurement"]["loss"]
        worst, which = gradients.worst_difference(found, reference[1])
        out.write(json.dumps({"check": name, "loss": loss, "loss_of_cpu": reference[0],
                              "gradient_difference": [worst, which]}) + "\n")
        if not (abs(loss - reference[0]) <= 1e-3 * abs(reference[0]) and worst <= 1e-2):
            failures.append(f"{name}: loss {loss}, a CPU has {reference[0]} in fp32; the gradient of {which} "
                            f"is {worst:.2g} of its norm away")
    return failures


def check_fp8_split(plumbline, config, out, reference, recipe, split):
    tensor, pipeline, data, more = split
    name = f"fp8 {recipe['fp8_recipe']} tp{tensor} pp{pipeline} dp{data} {more or ''}".strip()
    settings = settings_of(tensor, pipeline, data, {**FP8, **LARGE_UPDATES, **recipe, **more}, "bf16")
    record, found, problem = run_with_gradients(plumbline, config, settings)
    if record is None and "compute capability 8.9" in problem:
        out.write(json.dumps({"check": name, "skipped": problem}) + "\n")
        return []
    again, _ = run(plumbline, config, settings)
    if record is None or again is None:
        return [f"{name}: {problem}"]
    loss = record["measurement"]["loss"]
    wanted, gradients_wanted = reference
    out.write(json.dumps({"check": name, "loss": loss, "loss_in_bf16": wanted,
                          "gradient_difference": gradients.total_difference(found,
                                                                            gradients_wanted)}) + "\n")
    failures = gradient_failure(name, found, gradients_wanted, FP8_TOLERANCE)
    if not abs(loss - wanted) <= 5e-2 * abs(wanted):
        failures.append(f"{name}: loss {loss}, a single rank in bf16 has {wanted}")
    if again["measurement"]["loss"] != loss:
        failures.append(f"{name}: loss {loss}, and {again['measurement']['loss']} the second time")
    return failures


def check_dropout(plumbline, config, out):
    """Every backend and split draws the same numbers. Compares the loss of a CPU in the last step, which
    depends on the gradients of the earlier ones, too."""
    failures = []
    # Other draws change this loss by 1e-4 and more, visible in fp32; in bf16 cuda_operators_test checks entry
    # by entry.
    for precision, tolerance in (("fp32", 1e-5), ("bf16", 3e-2)):
        settings = {**settings_of(1, 1, 1, {}, precision), **DROPOUT}
        record, problem = run(plumbline, config, {**settings, "backend": "cpu"})
        if record is None:
            failures.append(f"{precision} dropout on the CPU: {problem}")
            continue
        reference = record["measurement"]["loss"]
        failures += at_once(JOBS, [functools.partial(check_dropout_split, plumbline, config, out,
                                                     (precision, tolerance, reference), split)
                                   for split in DROPOUT_SPLITS])
    return failures


def check_dropout_split(plumbline, config, out, wanted, split):
    precision, tolerance, reference = wanted
    tensor, pipeline, data, more = split
    name = f"{precision} dropout tp{tensor} pp{pipeline} dp{data} {more or ''}".strip()
    record, problem = run(plumbline, config,
                          {**settings_of(tensor, pipeline, data, more, precision), **DROPOUT})
    if record is None:
        return [f"{name}: {problem}"]
    loss = record["measurement"]["loss"]
    out.write(json.dumps({"check": name, "loss": loss, "loss_of_cpu": reference}) + "\n")
    return [] if abs(loss - reference) <= tolerance * abs(reference) else [f"{name}: loss {loss}, a CPU has "
                                                                           f"{reference}"]


def check_lora(plumbline, config, out):
    """Adapters alone train: the loss and the adapters' gradients of a CPU."""
    failures = []
    for tensor, pipeline, data, more in LORA_SPLITS:
        name = f"lora tp{tensor} pp{pipeline} dp{data} {more or ''}".strip()
        alone = {**LORA, **{key: value for key, value in more.items() if key == "lora_targets"},
                 "backend": "cpu"}
        record, wanted, problem = run_with_gradients(plumbline, config, settings_of(1, 1, 1, alone, "fp32"))
        if record is None:
            failures.append(f"{name} on the CPU: {problem}")
            continue
        reference = record["measurement"]["loss"], wanted
        settings = settings_of(tensor, pipeline, data, {**LORA, **more}, "fp32")
        failures += check_fp32_split(plumbline, config, name, settings, reference, out)[1]
    return failures


def with_model(config, model):
    """The configuration with one of MIXTURES, in a file of its own."""
    path = os.path.join(os.path.dirname(config), f"{model}.yaml")
    with open(config, encoding="utf-8") as file, open(path, "w", encoding="utf-8") as changed:
        json.dump({**json.load(file), "model": MIXTURES[model], "precision": "fp32"}, changed)
    return path


def check_mixtures(plumbline, config, out):
    """Mixtures in every way to split them: the loss of a CPU."""
    checks = []
    for model, keys in MIXTURES.items():
        path = with_model(config, model)
        shared = SHARED_EXPERT_SPLITS if "n_shared_experts" in keys else []
        checks += [functools.partial(check_mixture, plumbline, path, out, model, split)
                   for split in (NORMED_SPLITS if model == "qwen3_moe" else MIXTURE_SPLITS + shared)]
    return at_once(JOBS, checks)


def check_mixture(plumbline, path, out, model, split):
    tensor, pipeline, data, more = split
    name = f"{model} tp{tensor} pp{pipeline} dp{data} {more or ''}".strip()
    alone = {key: value for key, value in more.items() if "capacity" in key or "loss" in key + value
             or "mtp" in key}
    if "micro_batch_size" in more:  # the global batch is balanced: equally many sequences at a time
        alone["micro_batch_size"] = str(data * int(more["micro_batch_size"]))
    reference, wanted_gradients, problem = run_with_gradients(
        plumbline, path, {**settings_of(1, 1, 1, alone, "fp32"), "backend": "cpu"})
    if reference is None:
        return [f"{name}: {problem}"]
    record, found, problem = run_with_gradients(plumbline, path,
                                                settings_of(tensor, pipeline, data, more, "fp32"))
    if record is None:
        return [f"{name}: {problem}"]
    loss, wanted = record["measurement"]["loss"], reference["measurement"]["loss"]
    out.write(json.dumps({"check": name, "loss": loss, "loss_of_cpu": wanted,
                          "gradient_difference": gradients.worst_difference(found, wanted_gradients)}) + "\n")
    failures = gradient_failure(name, found, wanted_gradients, MIXTURE_TOLERANCE, gradients.worst_difference)
    # a logit rounded otherwise may choose another expert
    if not abs(loss - wanted) <= 1e-3 * abs(wanted):
        failures.append(f"{name}: loss {loss}, a CPU has {wanted}")
    return failures


def check_fp8_mixtures(plumbline, config, out):
    """Experts in FP8: the loss of a CPU."""
    path = os.path.join(os.path.dirname(config), "mixtral_fp8.yaml")
    with open(config, encoding="utf-8") as file, open(path, "w", encoding="utf-8") as changed:
        json.dump({**json.load(file), "model": MIXTURES["mixtral"], **FP8}, changed)
    return at_once(JOBS, [functools.partial(check_fp8_mixture, plumbline, path, out, split)
                          for split in FP8_MIXTURE_SPLITS])


def check_fp8_mixture(plumbline, path, out, split):
    tensor, pipeline, data, more = split
    name = f"mixtral in fp8 tp{tensor} pp{pipeline} dp{data} {more}"
    alone = {"fp8_recipe": more["fp8_recipe"], "backend": "cpu"}
    reference, problem = run(plumbline, path, settings_of(1, 1, 1, alone, "bf16"))
    settings = settings_of(tensor, pipeline, data, more, "bf16")
    record, other = run(plumbline, path, settings) if reference else (None, problem)
    if record is None and "compute capability 8.9" in other:
        out.write(json.dumps({"check": name, "skipped": other}) + "\n")
        return []
    if record is None:
        return [f"{name}: {other}"]
    loss, wanted = record["measurement"]["loss"], reference["measurement"]["loss"]
    out.write(json.dumps({"check": name, "loss": loss, "loss_of_cpu": wanted}) + "\n")
    return [] if abs(loss - wanted) <= 5e-2 * abs(wanted) else [f"{name}: loss {loss}, a CPU has {wanted}"]


def rank_process(mark, rank):
    """The process of a rank whose environment holds our mark."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                environment = file.read().split(b"\0")
            with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
                name = file.read().strip()
        except OSError:
            continue
        wanted = {mark.encode(), f"OMPI_COMM_WORLD_RANK={rank}".encode()}
        if name == "plumbline-cuda" and wanted <= set(environment):
            return int(pid)
    return None


def says_progress(process, seconds):
    """True once the process has told on standard error how many steps it has done."""
    ended = threading.Timer(seconds, process.kill)
    ended.start()
    try:
        return any(re.search(r"\[\d+/\d+\] steps", line) for line in process.stderr)
    finally:
        ended.cancel()


def check_watchdog(plumbline, config, out):
    mark = f"PLUMBLINE_TEST_MARK={os.getpid()}"
    # The time bounds the making of communicators, too.
    environment = {**os.environ, "PLUMBLINE_NCCL_TIMEOUT": "20", "PLUMBLINE_TEST_MARK": str(os.getpid())}
    # Tensor parallelism: nearly all of a step lies between two collectives.
    settings = {**settings_of(2, 1, 1, {}, "fp32"), "steps": 100000}
    with subprocess.Popen(command(plumbline, config, settings), env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        pid = None
        for _ in range(300):
            pid = rank_process(mark, 1)
            if pid is not None or process.poll() is not None:
                break
            time.sleep(0.1)
        if pid is None:
            process.kill()
            return ["watchdog: rank 1 was never seen"]
        # Before it trains nobody watches: communicators are made, and kernels loaded.
        if not says_progress(process, 90):
            process.kill()
            return ["watchdog: no step within 90 s"]
        os.kill(pid, signal.SIGSTOP)
        begin = time.monotonic()
        try:
            output = "".join(process.communicate(timeout=75))
        except subprocess.TimeoutExpired:
            process.kill()
            return ["watchdog: nothing was said within 75 s of rank 1 stopping"]
        finally:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass
    seconds = time.monotonic() - begin
    named = any(words in output for words in ("rank 1 has not reached it",
                                              "rank 1 has started it, but its process has not run"))
    out.write(json.dumps({"check": "watchdog", "named": named, "seconds": round(seconds, 1)}) + "\n")
    return [] if named else [f"watchdog: rank 1 was not named: {output[-500:]}"]


# Recorded: up to 0.9 GB more than predicted. Ranks that share a GPU connect by sockets instead of NVLink.
PREDICTED_WITHIN = 2 << 30


def check_device_memory(plumbline, config, out, splits=((1, 1, 1), (2, 1, 1), (1, 2, 1))):
    """Memory that the ranks report, against the device's reading for all processes."""
    profile = os.path.join(os.path.dirname(out.name) or ".", "profile.json")
    failures = []
    for tensor, pipeline, data in splits:
        settings = settings_of(tensor, pipeline, data, {}, "bf16")
        if os.path.exists(profile):
            settings["hardware"] = profile
        record, problem = run(plumbline, config, settings)
        name = f"device memory tp{tensor} pp{pipeline}"
        if record is None:
            failures.append(f"{name}: {problem}")
            continue
        memory = record["measurement"]["device_memory"]
        predicted = record["prediction"].get("device_memory", {"ranks": [{"total_bytes": 0}]})
        predicted_bytes = max(rank["total_bytes"] for rank in predicted["ranks"])
        row = max(memory["ranks"], key=lambda rank: rank["total_bytes"])
        out.write(json.dumps({"check": name, "source": memory["source"],
                              "device_bytes": memory["device_bytes"],
                              "predicted_bytes": predicted_bytes,
                              **row}) + "\n")
        parts = [row[f"{part}_bytes"] for part in ("allocated", "reserved", "total")]
        if sorted(parts) != parts or parts[-1] > memory["device_bytes"]:
            failures.append(f"{name}: expected allocated <= reserved <= total <= the device, found {row}")
        if not abs(row["total_bytes"] - predicted_bytes) <= PREDICTED_WITHIN:
            failures.append(f"{name}: {row['total_bytes']} bytes, predicted {predicted_bytes}, expected at most "
                            f"{PREDICTED_WITHIN} apart")
        if row["context_bytes"] is None:
            failures.append(f"{name}: the context's size is missing: {memory['source']}")
        ranks = memory["ranks"] if row["ranks_on_device"] > 1 else [row]
        together = sum(rank["total_bytes"] for rank in ranks)
        if together > row["device_used_bytes"]:
            failures.append(f"{name}: ranks take {together} bytes, all processes {row['device_used_bytes']}")
    return failures


def check_budget(plumbline, config, out):
    settings = {**settings_of(1, 1, 1, {}, "fp32"), "memory_budget": "1MiB"}
    code, _, _ = finished(command(plumbline, config, settings), os.environ)
    out.write(json.dumps({"check": "budget", "exit_code": code}) + "\n")
    return [] if code == 3 else [f"budget: exit code {code}, expected 3"]


LANES = [  # tensor, data, more settings, the lane
    (2, 1, {"sequence_parallel": "true", "tp_comm_overlap": "true"}, "tensor"),
    (1, 2, {"zero_stage": "3"}, "data"),
    (1, 2, {"context_parallel_size": "2"}, "context"), (1, 1, {"cpu_offloading_num_layers": "2"}, "host"),
]


GENERATION_SPLITS = [
    ("qwen2", 1, 1, 1, {}), ("qwen2", 2, 1, 1, {}), ("qwen2", 1, 2, 1, {}), ("qwen2", 1, 1, 2, {}),
    ("mixtral", 1, 1, 2, {"expert_model_parallel_size": "2"}),
]


def generated(plumbline, config, settings):
    """Sequences that `generate` makes of random prompts, and what went wrong."""
    line = command(plumbline, config, settings)
    line[1] = "generate"
    code, output, errors = finished(line, os.environ)
    return (json.loads(output)["sequences"],
            "") if code == 0 else (None, f"exit code {code}: {errors.strip()[-300:]}")


def check_generation(plumbline, config, out):
    """Greedy ids in fp32 are a CPU's, and their log-probabilities to 1e-3."""
    failures = []
    for model, tensor, pipeline, data, more in GENERATION_SPLITS:
        name = f"generation {model} tp{tensor} pp{pipeline} dp{data}"
        path = config if model == "qwen2" else with_model(config, model)
        sizes = {"global_batch_size": 6, "prompt_length": 33, "max_new_tokens": 12}
        alone = {**settings_of(1, 1, 1, {**sizes, "micro_batch_size": 6}, "fp32"), "backend": "cpu"}
        wanted, problem = generated(plumbline, path, alone)
        split = {**sizes, **more, "micro_batch_size": 6 // data}
        found, other = generated(plumbline, path, settings_of(tensor, pipeline, data, split, "fp32"))
        if wanted is None or found is None:
            failures.append(f"{name}: {problem or other}")
            continue
        pairs = list(zip(found, wanted, strict=True))
        same = all(mine["ids"] == other["ids"] for mine, other in pairs)
        worst = max(abs(a - b) for mine, other in pairs
                    for a, b in zip(mine["log_probabilities"], other["log_probabilities"], strict=True))
        out.write(json.dumps({"check": name, "same_ids": same, "worst_log_probability": worst}) + "\n")
        if not same or not worst <= 1e-3:
            failures.append(f"{name}: same ids as a CPU {same}, log-probabilities within {worst:.2g}, "
                            f"expected 1e-3")
    return failures


PACKED_SPLITS = [(1, 1, 1, {}), (2, 1, 1, {"sequence_parallel": "true"}), (1, 2, 1, {}), (1, 1, 2, {})]
DYNAMIC_SPLIT = (1, 1, 2, {"context_parallel_size": 2, "dynamic_context_parallel": "true"})


def write_chats(config):
    """A file of conversations of many lengths, the longest that of a sequence."""
    with open(config, encoding="utf-8") as file:
        longest = json.load(file)["seq_length"]
    path = os.path.join(os.path.dirname(config), "chats.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        for number in range(24):
            length = longest - number * longest // 25
            ids = [(7 * number + 13 * j) % MODEL["vocab_size"] for j in range(length)]
            file.write(json.dumps({"input_ids": ids,
                                   "assistant_masks": [int(j % 3 > 0) for j in range(length)]}) + "\n")
    return path


def check_packed_chats(plumbline, config, out, splits=PACKED_SPLITS):
    """Chats packed into sequences, with attention and positions of each, against a CPU. Those split over as
    many context ranks as they need are other packs: against a CPU's ranks."""
    failures = check_chats_like(plumbline, config, out, (1, 1, 1, {}), splits)
    return failures + check_chats_like(plumbline, config, out, DYNAMIC_SPLIT, [DYNAMIC_SPLIT])


def check_chats_like(plumbline, config, out, like, splits):
    """The splits give what `like` gives on the CPU."""
    packed = {"task": "sft", "data": write_chats(config), "packed_sequence": "true", "micro_batch_size": "1"}
    tensor, pipeline, data, more = like
    settings = {**settings_of(tensor, pipeline, data, {**packed, **more}, "fp32"), "backend": "cpu"}
    record, found, problem = run_with_gradients(plumbline, config, settings)
    if record is None:
        return [f"packed chats on the CPU: {problem}"]
    reference = record["measurement"]["loss"], found
    failures = []
    for tensor, pipeline, data, more in splits:
        name = f"packed chats tp{tensor} pp{pipeline} dp{data} cp{more.get('context_parallel_size', 1)}"
        settings = settings_of(tensor, pipeline, data, {**packed, **more}, "fp32")
        failures += check_fp32_split(plumbline, config, name, settings, reference, out)[1]
    return failures


def check_lanes(plumbline, config, out):
    """With a trace every lane is measured: something runs there, and no more is waited for than runs."""
    failures = []
    trace = os.path.join(os.path.dirname(config), "lanes.json")
    for tensor, data, more, lane in LANES:
        settings = settings_of(tensor, 1, data, more, "bf16")
        record, problem = run(plumbline, config, settings, ["--trace", trace])
        found = record["measurement"].get("lanes", {}).get(lane) if record else None
        out.write(json.dumps({"check": f"lanes {lane}", **(found or {})}) + "\n")
        if found is None or not (found["time_s"] > 0
                                 and 0 <= found["exposed_s"] <= found["time_s"] * 1.001):
            failures.append(f"lane of {lane}: found {found}, expected a time above 0 and at most as much waiting; "
                            f"{problem}")
    return failures


def check_short_memory(plumbline, config, out):
    return check_device_memory(plumbline, config, out, ((1, 2, 1),))


FULL = (check_splits, check_any_order, check_fp8, check_fp16, check_dropout, check_mixtures,
        check_fp8_mixtures,
        check_lora, check_device_memory,
        check_lanes, check_generation, check_packed_chats, check_watchdog, check_budget)
SHORT = (check_short_splits, check_any_order, check_generation, check_watchdog, check_short_memory,
         check_budget)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plumbline")
    parser.add_argument("out")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", action="append",
                        choices=[check.__name__.removeprefix("check_") for check in FULL])
    options = parser.parse_args()
    plumbline, path = options.plumbline, options.out
    global JOBS
    JOBS = options.jobs
    with tempfile.TemporaryDirectory() as folder, open(path, "w", encoding="utf-8", buffering=1) as out:
        config = os.path.join(folder, "config.yaml")
        with open(config, "w", encoding="utf-8") as file:
            json.dump({"model": MODEL, "backend": "cuda",
                       "hardware": os.environ.get("PLUMBLINE_GPU_HARDWARE", "h100-sxm-80gb"),
                       "seq_length": 128,
                       "micro_batch_size": 1, "global_batch_size": 8, "warmup_steps": 1, "steps": 2,
                       "deterministic_mode": True}, file)
        failures = []
        for check in SHORT if options.short else FULL:
            if options.only and check.__name__.removeprefix("check_") not in options.only:
                continue
            try:
                failures += check(plumbline, config, out)
            except Exception as error:  # the other ranks still report their findings
                failures.append(f"{check.__name__}: {type(error).__name__}: {error}")
    for failure in failures:
        print(failure)
    print(f"{len(failures)} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
