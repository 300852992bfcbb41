"""Headers of imported tables."""

import json

# Columns of features, with the value that means "without it": as
# analysis/published/dialect/dialect_columns.hpp has them.
FEATURES = {
    "moe_expert_capacity_factor": "", "moe_pad_expert_input_to_capacity": "false",
    "moe_router_load_balancing_type": "", "moe_router_force_load_balancing": "false",
    "moe_shared_expert_overlap": "false",
    "zero_hpz_partition_size": "1",
    "use_megatron_fsdp": "false", "activation_offload": "none",
    "optimizer_offload_fraction": "0",
    "apply_query_key_layer_scaling": "false", "parallel_block": "false",
    "hybrid_layer_pattern": "none", "defer_embedding_wgrad_compute": "false",
    "attention_softmax_in_fp32": "false", "gradient_accumulation_fusion": "true",
    "deterministic_mode": "false",
    "pipeline_model_parallel_layout": "none",
    "other_flags": "",
}

RECIPE = ["Not printed, and taken from the recipes that were measured: the distributed optimizer (zero_stage "
          "1); with tensor",
          "parallelism also sequence parallelism, and from size 4 on overlapped tensor-parallel collectives. "
          "Recomputation is",
          "not printed: none."]
TITLES = {
    "bridge_perf": ("Megatron-Bridge's performance summaries by release", [
        "step times follow from tokens/s; FP8 is current scaling (fp8cs)"] + RECIPE),
    "nemo_summary": ("NeMo's performance summary", RECIPE),
    "torchtitan": ("torchtitan's benchmark pages",
                   ["seq_length is the stock recipes' where a page prints none"]),
    "dgxc": ("Recipes of NVIDIA's DGX Cloud benchmarks", RECIPE + [
        "MaxText and Paxml: FSDP and the recipes' policies of recomputation, which name their software; "
        "where no micro-batch is",
        "printed a replica computes its share of the batch at once. FP8 of NeMo's recipes is "
        "bf16_with_fp8_mixed: delayed."]),
    "megascale": ("MegaScale's tables", ["stages are as its text says; 16-bit"]),
    "mlperf": ("MLPerf Training: step times from the logs of results, sizes from the submitted "
               "configurations", RECIPE),
    "convert": ("Megatron-LM's golden values of its functional tests", [
        "Where a test gives no vocabulary it is GPT-2's, of the tests' data. Memory is that of the last "
        "rank. Of models",
        "up to hidden size 1024 the time is the host's, and is left out with the flags that change nothing "
        "else."]),
    "bridge_verified": ("Megatron-Bridge's verified recipes", RECIPE),
    "community": ("Measurements that users posted", []),
    "folding": ("MoE Parallel Folding", []),
    "matched": ("Pairs of runs that differ in one switch", RECIPE),
    "context": ("Context parallelism, measured", RECIPE[:2] + [
        "parallelism also sequence parallelism, and from size 4 on overlapped collectives."]),
    "simumax": ("SimuMax's measurements on one node of B200", []),
}


def header_of(kind, shared):
    title, notes = TITLES[kind]
    lines = [f"title: {title}"] if ":" not in title else [f"title: {json.dumps(title)}"]
    lines += [f"# {note}" for note in notes]
    if kind == "convert":
        lines.append("memory: last")
    if shared.get("source"):
        lines.append(f"source: {json.dumps(shared['source'])}")
    lines.append("defaults:")
    for column, value in shared.items():
        if column != "source" and value not in (None, ""):
            lines.append(f"  {column}: {json.dumps(str(value))}")
    if lines[-1] == "defaults:":
        lines.pop()
    return "\n".join(lines) + "\n"
