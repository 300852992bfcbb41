#!/usr/bin/env python3
"""Shares of combinations of features that are refused, over random configurations and over all pairs.

    tests/draw_combinations.py [PROGRAM] [--draws N] [--seed S] [--pairs] [--rows]

PROGRAM defaults to build/release/bench/plumbline. A draw is a model and features of the training step, with
the settings that each of them needs. Left out are features of other models, those that set a key twice, and
those that leave another nothing to do. Sizes fit; a refusal of a size is drawn again. `predict` with an
emulated H100 answers. The same seed makes the same draws. --pairs: every two features that go with some model
instead. --rows: refusals, most first.
"""
import argparse
import collections
import itertools
import json
import random
import re
import subprocess
import sys

BASE = {"num_hidden_layers": 16, "hidden_size": 256, "num_attention_heads": 16, "num_key_value_heads": 16,
        "intermediate_size": 512, "vocab_size": 1024, "max_position_embeddings": 1024, "rms_norm_eps": 1.0e-6,
        "tie_word_embeddings": False}
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 128, "norm_topk_prob": True}
MODELS = {
    "dense": {**BASE, "model_type": "llama"},
    "norms": {**BASE, "model_type": "qwen3", "head_dim": 16},
    "mixture": {**BASE, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2},
    "norms mixture": {**BASE, **EXPERTS, "model_type": "qwen3_moe", "head_dim": 16},
    "shared mixture": {**BASE, **EXPERTS, "model_type": "qwen2_moe", "shared_expert_intermediate_size": 128},
    "latent shared mixture": {
        **BASE, "model_type": "deepseek_v3", "moe_intermediate_size": 128, "first_k_dense_replace": 1,
        "n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1, "n_group": 1, "topk_group": 1,
        "q_lora_rank": 64, "kv_lora_rank": 64, "qk_nope_head_dim": 16, "qk_rope_head_dim": 16,
        "v_head_dim": 16},
}


class Feature:
    """`sets`: its keys. `needs`: keys that it needs some value of, by default this one; sizes: at least this.
    `model`: what the model's name holds, `without`: what it does not."""

    def __init__(self, sets, needs=None, model="", without="-"):
        self.sets, self.needs, self.model, self.without = sets, needs or {}, model, without

    def suits(self, model):
        return self.model in model and self.without not in model


def schedule(name, more=None):
    return Feature({"pipeline_schedule": name}, {"pp": 2, **(more or {})})


SHARDED = {"dp": 2, "zero_stage": "1"}
SPREAD = {"dp": 2, "ep": 2}
FEATURES = {
    "tensor": Feature({}, {"tp": 2}),
    "sequence": Feature({"sequence_parallel": "true"}, {"tp": 2}),
    "tensor overlap": Feature({"tp_comm_overlap": "true"}, {"tp": 2, "sequence_parallel": "true"}),
    "pipeline": Feature({}, {"pp": 2}),
    "interleaved": schedule("interleaved", {"virtual_pipeline_chunks": "2"}),
    "zb-h1": schedule("zb-h1"), "zb-v": schedule("zb-v"), "dualpipe": schedule("dualpipe"),
    "dualpipev": schedule("dualpipev"),
    "vocab-1": Feature({"vocab_parallel": "vocab-1"}, {"pp": 2}),
    "vocab-2": Feature({"vocab_parallel": "vocab-2"}, {"pp": 2}),
    "deferral": Feature({"defer_embedding_wgrad_compute": "true"}, {"pp": 2}),
    "zero 1": Feature({"zero_stage": "1"}, {"dp": 2}), "zero 2": Feature({"zero_stage": "2"}, {"dp": 2}),
    "zero 3": Feature({"zero_stage": "3"}, {"dp": 2}),
    "parameter gather": Feature({"overlap_param_gather": "true"}, SHARDED),
    "reduction after": Feature({"overlap_grad_reduce": "false"}, {"dp": 2}),
    "instances": Feature({"num_distributed_optimizer_instances": "2"}, {"dp": 4, "zero_stage": "1"}),
    "hpz": Feature({"zero_hpz_partition_size": "2", "zero_stage": "3"}, {"dp": 4}),
    "ring": Feature({"cp_comm_type": "p2p"}, {"cp": 2}),
    "gathered keys": Feature({"cp_comm_type": "all_gather"}, {"cp": 2}),
    "exchanged heads": Feature({"cp_comm_type": "a2a"}, {"cp": 2}),
    "experts": Feature({}, SPREAD, "mixture"),
    "gathered tokens": Feature({"moe_token_dispatcher_type": "allgather"}, SPREAD, "mixture"),
    "pairs": Feature({"overlap_moe_expert_parallel_comm": "true"}, SPREAD, "mixture"),
    "shared overlap": Feature({"moe_shared_expert_overlap": "true"}, SPREAD, "shared mixture"),
    "capacity": Feature({"moe_expert_capacity_factor": "1"}, {}, "mixture"),
    "routing": Feature({"moe_routing": "worst"}, {}, "mixture"),
    "balance": Feature({"moe_aux_loss_coeff": "0.01"}, {}, "mixture"),
    "full": Feature({"recompute_granularity": "full"}),
    "selective": Feature({"recompute_granularity": "selective"}),
    "norms again": Feature({"recompute_granularity": "selective", "recompute_modules": "layernorm"}),
    "mlp again": Feature({"recompute_granularity": "selective", "recompute_modules": "mlp"}, {}, "",
                         "mixture"),
    "experts again": Feature({"recompute_granularity": "selective", "recompute_modules": "moe"}, {},
                             "mixture"),
    "offloading": Feature({"cpu_offloading_num_layers": "1"}),
    "modules": Feature({"mtp_num_layers": "1"}),
    "dropout": Feature({"hidden_dropout": "0.1", "attention_dropout": "0.1"}),
    "fp8": Feature({"precision": "bf16", "fp8_format": "hybrid"}),
    "fp8 tensorwise": Feature({"precision": "bf16", "fp8_format": "hybrid", "fp8_recipe": "tensorwise"}),
    "early messages": Feature({"overlap_p2p_comm": "true"}, {"pp": 2}),
    "loss in fp32": Feature({"cross_entropy_loss_fusion": "false"}),
    "16-bit sums": Feature({"tp_reduce_in_fp32": "false"}, {"tp": 2}),
}
SIZES = {"tp", "pp", "dp", "cp", "ep"}
OF_SIZES = re.compile(r"multiple of|divisor|divisible|divide|at most|fewer|world_size")


def contradictory(settings):
    """One feature leaves the other nothing to do."""
    on_schedule = settings.get("pipeline_schedule", "1f1b")
    vocabulary = "vocab_parallel" in settings
    if vocabulary and on_schedule != "1f1b":
        return True
    if "defer_embedding_wgrad_compute" in settings and (vocabulary
                                                        or on_schedule not in ("1f1b", "interleaved")):
        return True
    if "overlap_moe_expert_parallel_comm" in settings and on_schedule.startswith("zb"):
        return True
    return "cpu_offloading_num_layers" in settings and settings.get("recompute_granularity") == "full"


def settings_of(features):
    """Settings of these features together; None if they contradict each other."""
    settings = {}
    for feature in features:
        for key, value in feature.sets.items():
            if settings.setdefault(key, value) != value:
                return None
    for feature in features:
        for key, value in feature.needs.items():
            settings[key] = max(settings.get(key, 1), value) if key in SIZES else settings.get(key, value)
    if settings.get("ep", 1) > 1 and settings.get("num_distributed_optimizer_instances"):
        settings["dp"] = max(settings["dp"], 4)
    return None if contradictory(settings) else settings


def refusal(program, model, settings):
    line = [program, "predict", "--quiet", "--json", "--hardware", "h100-sxm-80gb", "--model",
            json.dumps(MODELS[model])]
    line += [f"--set={key}={value}" for key, value in {"seq_length": 512, "gbs": 64, **settings}.items()]
    ended = subprocess.run(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if ended.returncode not in (0, 2, 3):
        sys.exit(f"exit code {ended.returncode}: {ended.stderr}\n{line}")
    return ended.stderr.strip().splitlines()[-1] if ended.returncode == 2 else ""


def random_draws(draw, count):
    """Combinations without an end; the caller stops."""
    while count > 0:
        model = draw.choice(list(MODELS))
        names = [name for name, feature in FEATURES.items() if feature.suits(model)]
        draw.shuffle(names)
        chosen = []
        for name in names[:draw.randint(2, 7)]:
            if settings_of([FEATURES[one] for one in (*chosen, name)]) is not None:
                chosen.append(name)
        yield model, sorted(chosen)


def all_pairs():
    for pair in itertools.combinations(FEATURES, 2):
        models = [model for model in MODELS if all(FEATURES[name].suits(model) for name in pair)]
        if models and settings_of([FEATURES[name] for name in pair]) is not None:
            yield models[0], list(pair)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", nargs="?", default="build/release/bench/plumbline")
    parser.add_argument("--draws", type=int, default=2300, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pairs", action="store_true")
    parser.add_argument("--rows", action="store_true")
    options = parser.parse_args()
    combinations = all_pairs() if options.pairs else random_draws(random.Random(options.seed), options.draws)
    asked = 0
    refusals = collections.Counter()
    example = {}
    for model, names in combinations:
        if not options.pairs and asked == options.draws:
            break
        reason = refusal(options.program, model, settings_of([FEATURES[name] for name in names]))
        if OF_SIZES.search(reason):
            continue
        asked += 1
        if reason:
            reason = re.sub(r"^plumbline: (--set\S*: )?", "", reason)
            refusals[reason] += 1
            example.setdefault(reason, f"{model}: {', '.join(names)}")
    refused = sum(refusals.values())
    print(f"{asked} combinations, {refused} refused: {100 * refused / max(asked, 1):.1f} %")
    if options.rows:
        for reason, count in refusals.most_common():
            print(f"{count:>5} {reason}\n      {example[reason]}")


if __name__ == "__main__":
    main()
