"""Switches of Megatron-Bridge's performance recipes, by model, system and release. Source: its repository's
tags v0.2.0 (25.11) to v0.5.1 (26.06.01), scripts/performance/configs/*_workload_base_configs.py, and
*_llm_pretrain.py, which set the dispatcher behind the recipe. Nothing for a model that is not listed."""

import re

ROUTER = {"cuda_graph_impl": "transformer_engine", "cuda_graph_modules": "moe_router,moe_preprocess"}
ATTENTION = {"cuda_graph_impl": "transformer_engine", "cuda_graph_modules": "attn,moe_router,moe_preprocess"}
MLP = {"cuda_graph_impl": "transformer_engine", "cuda_graph_modules": "mlp"}
OVERLAP = {"overlap_moe_expert_parallel_comm": "true"}
MAMBA = {"cuda_graph_impl": "transformer_engine",
         "cuda_graph_modules": "attn,mamba,moe_router,moe_preprocess"}
SCANS = {"cuda_graph_impl": "transformer_engine", "cuda_graph_modules": "mamba"}
MIXERS = {"cuda_graph_impl": "transformer_engine", "cuda_graph_modules": "attn,mamba"}
MODULES = {"mtp_num_layers": "2"}
BY_LAYER = {"other_flags": "quant_recipe"}  # a precision for each of several parts of a layer
LAYERS = {"cuda_graph_impl": "local"}
STEP = {"cuda_graph_impl": "full_iteration"}
WHOLE = STEP | OVERLAP  # and experts' products in one kernel with their activation
EXCHANGE = {"moe_token_dispatcher_type": "alltoall"}

# (model, systems, precisions, first release, last release, settings); the first that fits. Those of 25.09 are
# of the tag v0.1.0rc4, whose cuda_graphs capture layers.
RECIPES = [
    (r"qwen3.30b", r"GB200|B200", "", "", "25.09", LAYERS),
    (r"qwen3.235b", r"GB200", "", "", "25.09", LAYERS),
    (r"llama3.8b", r"B200", "", "", "25.09", LAYERS),
    (r"llama3.8b", r"GB200", "BF16|MXFP8", "", "25.09", LAYERS),
    (r"llama3.70b", r"B200", "BF16", "", "25.09", LAYERS),
    (r"", "", "", "", "25.09", {}),
    (r"qwen3.30b", r"GB300|GB200|B300", "MXFP8", "26.06", "", WHOLE),
    (r"qwen3.30b", r"B200", "MXFP8", "26.06.01", "", WHOLE),
    (r"qwen3.30b", r"B200", "", "26.02.01", "", ATTENTION),
    (r"qwen3.30b", r"B200", "", "", "", ROUTER | EXCHANGE),
    (r"qwen3.30b", r"GB200", "BF16|FP8", "", "", ATTENTION),
    (r"qwen3.30b", r"H100", "BF16", "", "25.11", ROUTER | OVERLAP | EXCHANGE),
    (r"qwen3.30b", r"H100", "BF16", "", "26.02", ROUTER | OVERLAP),
    (r"qwen3.30b", r"H100", "BF16", "", "", ROUTER),
    (r"qwen3.30b", r"H100", "", "", "25.11", OVERLAP | EXCHANGE),
    (r"qwen3.30b", r"H100", "", "", "26.02", OVERLAP),
    (r"qwen3.30b", r"H100", "", "", "", {}),
    (r"qwen3.30b", "", "", "", "", ROUTER),
    (r"qwen3.235b", r"GB300|GB200", "MXFP8", "26.06", "", WHOLE),
    (r"qwen3.235b", r"B300|B200", "MXFP8", "26.06.01", "", WHOLE),
    (r"qwen3.235b", r"GB300", "", "", "25.11", ROUTER),
    (r"qwen3.235b", r"GB300", "BF16", "", "26.02", ROUTER),
    (r"qwen3.235b", r"GB300|GB200", "", "", "", ATTENTION),
    (r"qwen3.235b", r"H100", "", "", "", OVERLAP | EXCHANGE),
    (r"qwen3.235b", r"B300", "", "", "26.02", OVERLAP | EXCHANGE),
    (r"qwen3.235b", r"B300", "", "", "26.04", EXCHANGE),
    (r"qwen3.235b", r"B300", "", "", "", {}),
    (r"qwen3.235b", r"B200", "", "", "25.11", OVERLAP | EXCHANGE),
    (r"qwen3.235b", r"B200", "", "", "", EXCHANGE),
    (r"deepseek.?v3", r"GB300|GB200", "MXFP8", "26.06", "", WHOLE),
    (r"deepseek.?v3", r"B300", "MXFP8", "26.06.01", "", WHOLE),
    (r"deepseek.?v3", r"GB200", "", "", "25.11", ROUTER),
    (r"deepseek.?v3", r"GB200", "", "", "", ATTENTION),
    (r"deepseek.?v3", r"GB300", "", "", "25.11", ATTENTION),
    (r"deepseek.?v3", r"GB300", "BF16", "", "", ATTENTION),
    (r"deepseek.?v3", r"B300", "", "26.04.01", "", ATTENTION),
    (r"deepseek.?v3", r"B200", "MXFP8", "26.04.01", "", ATTENTION | OVERLAP),
    (r"deepseek.?v3", r"H100", "", "25.11", "25.11", OVERLAP),
    (r"kimi", r"GB200", "", "", "", ROUTER),
    (r"gpt.?oss", r"GB300|GB200", "MXFP8", "26.06", "", WHOLE),
    (r"gpt.?oss", r"B300", "", "26.04", "", ATTENTION),
    (r"gpt.?oss", r"GB300|B300", "", "", "", ATTENTION | EXCHANGE),
    (r"gpt.?oss", r"GB200", "", "26.04", "26.04", OVERLAP),
    (r"gpt.?oss", r"GB200", "", "26.04.01", "26.04.01", OVERLAP | EXCHANGE),
    (r"gpt.?oss", r"B200", "", "26.04", "26.04", {}),
    (r"gpt.?oss", "", "", "", "", EXCHANGE),
    (r"nemotron.3.(nano|5)", r"H100", "FP8", "", "", SCANS),
    (r"nemotron.3.(nano|5)", r"H100", "", "", "", MIXERS),
    (r"nemotron.3.(nano|5)", "", "", "", "", MAMBA),
    (r"nemotron.3.super", "", "NVFP4", "", "", MAMBA | MODULES | BY_LAYER),
    (r"nemotron.3.super", r"B200", "MXFP8", "", "", MODULES),
    (r"nemotron.3.super", "", "", "", "", MAMBA | MODULES),
    (r"llama3.?8b", r"H100", "", "", "", {}),
    (r"llama3.8b pre-training", "", "", "25.11", "", STEP),
    (r"llama3.70b (sft|lora)", r"GB\d+|B\d+", "", "26.02", "", MLP),
    (r"llama3.70b sft", "", "", "26.02.01", "", MLP),
    (r"llama3.70b pre-training", r"B200", "BF16", "25.11", "", STEP),
    (r"llama3.1?.405b pre-training", r"GB300", "NVFP4", "25.11", "", STEP),
]

MLA, DENSE, ACTIVATION, NORMS = "mla_up_proj", "mla_up_proj,mlp", "moe_act", "layernorm,moe_act"

# (model, systems, precisions, first release, last release, recompute_modules); the first that fits. Settings
# of 25.09 are not known. Larger batches ("V2" from 26.02 on) are those of the summaries.
RECOMPUTED = [
    (r"", "", "", "", "25.09", ""),
    (r"gpt.?oss", r"GB200", "MXFP8", "26.06", "", ""),
    (r"gpt.?oss", r"GB200|B200|H100", "", "", "", NORMS),
    (r"deepseek.?v3", r"GB300", "", "", "25.11", ACTIVATION),
    (r"deepseek.?v3", r"GB300", "BF16", "", "", ACTIVATION),
    (r"deepseek.?v3", r"GB300", "MXFP8", "26.06", "", ""),
    (r"deepseek.?v3", r"GB200", "MXFP8|FP8", "26.04", "26.04.01", "mlp"),
    (r"deepseek.?v3", r"B300", "BF16", "26.02", "26.02", "mla_up_proj,moe_act,layernorm"),
    (r"deepseek.?v3", r"B200", "MXFP8", "26.06", "", DENSE),
    (r"nemotron.3.(nano|5)", r"H100", "FP8", "", "", "moe,layernorm,core_attn,moe_act"),
    (r"nemotron.3.(nano|5)", r"H100", "", "", "", "moe,layernorm"),
    (r"nemotron.3.super", r"B200", "MXFP8", "", "", NORMS),
    (r"deepseek.?v3|kimi", r"H100", "", "", "", DENSE),
    (r"deepseek.?v3|kimi", "", "", "", "", MLA),
]

# The same of cpu_offloading_num_layers (scripts/performance/configs/llama3 and llama31, v0.1.0rc4 to v0.5.1).
OFFLOADED = [
    (r"llama3.70b pre-training", r"GB300", "BF16", "", "", "30"),
    (r"llama3.70b pre-training", r"GB300", "FP8", "", "", "20"),
    (r"llama3.70b pre-training", r"GB200", "BF16", "", "", "20"),
    (r"llama3.70b pre-training", r"GB200", "FP8", "", "", "40"),
    (r"llama3.70b pre-training", r"B200", "FP8", "", "", "5"),
    (r"llama3.1?.405b pre-training", r"GB300", "BF16", "", "", "40"),
    (r"llama3.1?.405b pre-training", r"GB300", "FP8", "", "", "10"),
    (r"llama3.1?.405b pre-training", r"GB200", "FP8", "", "25.09", "95"),
    (r"llama3.1?.405b pre-training", r"GB200", "FP8", "", "", "92"),
]


def number(release):
    return tuple(map(int, re.findall(r"\d+", release)))


def recipe(row):
    """The columns that a recipe sets for a row of the performance summaries."""
    modules = first(RECOMPUTED, row, "")
    recomputed = {"recompute_granularity": "selective", "recompute_modules": modules} if modules else {}
    return first(RECIPES, row, {}) | recomputed


def offloaded(row):
    """Layers whose activations a recipe of Megatron-FSDP moves to the host; empty: none."""
    return first(OFFLOADED, row, "")


def first(table, row, otherwise):
    """Columns of the first line of a table that fits the row."""
    name, system = f"{row['model']} {row['phase']}".lower(), row["system"].replace("DGX-", "")
    precision = {"FP8-MX": "MXFP8", "FP8-CS": "FP8"}.get(row["precision"], row["precision"])
    release = number(row["release"])
    for model, systems, precisions, since, until, columns in table:
        if (re.search(model, name) and (not systems or re.fullmatch(systems, system))
                and (not precisions or precision in precisions.split("|"))
                and (not since or number(since) <= release) and (not until or release <= number(until))):
            return columns
    return otherwise
