"""Megatron-LM's golden values: exact memory and times of its functional tests, configured by flags."""

from .facts import HYBRIDS, find_hardware, find_precision
from .parts import Unplaced, put

# Flags that change neither time nor memory worth a row's while: logging, seeds, learning rates, names of
# files.
WITHOUT_COST = {
    "manual-gc", "manual-gc-interval", "norm-epsilon", "rotary-base", "rotary-scaling-factor", "decoupled-lr",
    "decoupled-min-lr", "step-batch-size-schedule", "apply-layernorm-1p", "init-method-std", "rerun-mode",
    "no-check-for-nan-in-loss-and-grad", "check-for-large-grads", "check-for-nan-in-loss-and-grad",
    "fim-data", "fim-rate",
    "fim-spm-rate", "test-mode", "export-te-mcore-model", "no-create-attention-mask-in-dataloader", "mscale",
    "mscale-all-dim", "moe-aux-loss-coeff", "moe-router-dtype", "enable-experimental", "tiktoken-pattern",
    "disable-gloo-process-groups", "cross-entropy-fusion-impl", "calculate-per-token-loss",
    "rotary-interleaved",
    "te-rng-tracker", "cuda-graph-warmup-steps", "exp-avg-dtype", "exp-avg-sq-dtype", "main-grads-dtype",
    "main-params-dtype", "no-rope-fusion", "wgrad-deferral-limit", "tp-comm-overlap-cfg", "fp8-format",
    "fp8-recipe",
    "moe-router-topk-scaling-factor", "moe-router-bias-update-rate", "moe-router-group-topk",
    "moe-router-num-groups",
    "optimizer=adam", "recompute-method=uniform", "high-priority-stream-groups", "mtp-loss-scaling-factor",
    "muon-momentum", "muon-extra-scale-factor",
    "muon-scale-mode", "moe-grouped-gemm", "moe-permute-fusion", "moe-router-pre-softmax",
    "moe-router-score-function",
    "moe-router-enable-expert-bias", "spec", "is-hybrid-model", "use-fused-weighted-squared-relu",
    "mtp-use-repeated-layer", "moe-flex-dispatcher-backend", "moe-flex-dispatcher-num-sms",
}
# Sizes of a hybrid model's mixers, which its preset has.
MIXERS = {"mamba-num-heads", "mamba-head-dim", "mamba-state-dim", "mamba-num-groups", "hybrid-layer-pattern",
          "squared-relu", "normalization", "position-embedding-type", "moe-ffn-hidden-size", "kv-channels",
          "moe-shared-expert-intermediate-size", "moe-latent-size", "make-vocab-size-divisible-by",
          "untie-embeddings-and-output-weights", "disable-bias-linear"}
# Flags with a column of their own; None: the flag's own value.
COLUMNS = {
    "swiglu": ("swiglu", "true"), "normalization": ("normalization", None),
    "position-embedding-type": ("position_embedding_type", None),
    "untie-embeddings-and-output-weights": ("tie_word_embeddings", "false"),
    "disable-bias-linear": ("add_bias_linear", "false"), "hidden-dropout": ("hidden_dropout", None),
    "attention-dropout": ("attention_dropout", None),
    "recompute-granularity": ("recompute_granularity", None),
    "recompute-num-layers": ("recompute_num_layers", None), "recompute-modules": ("recompute_modules", None),
    "cross-entropy-loss-fusion": ("cross_entropy_loss_fusion", "true"), "kv-channels": ("head_dim", None),
    "make-vocab-size-divisible-by": ("make_vocab_size_divisible_by", None),
    "num-layers-per-virtual-pipeline-stage": ("num_layers_per_virtual_pipeline_stage", None),
    "num-virtual-stages-per-pipeline-rank": ("virtual_pipeline_chunks", None),
    "account-for-embedding-in-pipeline-split": ("account_for_embedding_in_pipeline_split", "true"),
    "account-for-loss-in-pipeline-split": ("account_for_loss_in_pipeline_split", "true"),
    "no-gradient-accumulation-fusion": ("gradient_accumulation_fusion", "false"),
    "attention-softmax-in-fp32": ("attention_softmax_in_fp32", "true"),
    "deterministic-mode": ("deterministic_mode", "true"),
    "overlap-grad-reduce": ("overlap_grad_reduce", "true"),
    "overlap-param-gather": ("overlap_param_gather", "true"),
    "overlap-moe-expert-parallel-comm": ("overlap_moe_expert_parallel_comm", "true"),
    "overlap-p2p-communication-warmup-flush": ("overlap_p2p_comm", "true"),
    "tp-comm-overlap": ("tp_comm_overlap", "true"),
    "num-distributed-optimizer-instances": ("num_distributed_optimizer_instances", None),
    "use-megatron-fsdp": ("use_megatron_fsdp", "true"), "optimizer": ("optimizer", None),
    "cuda-graph-impl": ("cuda_graph_impl", None), "fp8-param-gather": ("fp8_param_gather", "true"),
    "q-lora-rank": ("q_lora_rank", None), "kv-lora-rank": ("kv_lora_rank", None),
    "qk-head-dim": ("qk_head_dim", None),
    "qk-pos-emb-head-dim": ("qk_pos_emb_head_dim", None), "v-head-dim": ("v_head_dim", None),
    "multi-latent-attention": ("multi_latent_attention", "true"), "qk-layernorm": ("qk_layernorm", "true"),
    "apply-query-key-layer-scaling": ("apply_query_key_layer_scaling", "true"),
    "squared-relu": ("squared_relu", "true"),
    "rotary-percent": ("rotary_percent", None), "hybrid-layer-pattern": ("hybrid_layer_pattern", None),
    "mtp-num-layers": ("mtp_num_layers", None),
    "defer-embedding-wgrad-compute": ("defer_embedding_wgrad_compute", "true"),
    "pipeline-model-parallel-layout": ("pipeline_model_parallel_layout", None),
    "first-last-layers-bf16": ("first_last_layers_bf16", "true"),
    "grad-reduce-in-bf16": ("grad_dtype", "same"),
    "moe-token-dispatcher-type": ("moe_token_dispatcher_type", None),
    "moe-layer-freq": ("moe_layer_freq", None),
    "moe-router-load-balancing-type": ("moe_router_load_balancing_type", None),
    "moe-ffn-hidden-size": ("moe_ffn_hidden_size", None), "cp-comm-type": ("cp_comm_type", None),
    "moe-shared-expert-intermediate-size": ("moe_shared_expert_intermediate_size", None),
    "fine-grained-activation-offloading": ("activation_offload", "fine-grained"),
    "moe-expert-capacity-factor": ("moe_expert_capacity_factor", None),
    "moe-pad-expert-input-to-capacity": ("moe_pad_expert_input_to_capacity", "true"),
    "use-flash-attn": ("attention_backend", "fused"),
    "hierarchical-context-parallel-sizes": ("hierarchical_context_parallel_sizes", None),
}
# Options that do not change memory: fused kernels compute softmax in fp32 anyway, a gradient that is added
# separately is one weight's. Neither does the order of the ranks, the rank that divides by their number, or
# the time of gathers.
TIME_ONLY = {"deterministic-mode", "attention-softmax-in-fp32", "no-gradient-accumulation-fusion",
             "use-tp-pp-dp-mapping",
             "ddp-average-in-collective", "overlap-param-gather-with-optimizer-step"}
SIZES = ("model_type", "num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads",
         "num_key_value_heads", "num_experts", "moe_router_topk")
SMALL = 1024  # hidden size up to which a test's time is the host's, not the accelerator's
ONE = {"rotary-percent": "1", "num-distributed-optimizer-instances": "1"}


def put_flags(cells, flags, small, of_preset):
    unknown = []
    for flag in filter(None, (each.strip() for each in flags.split(";"))):
        name, _, value = flag.partition("=")
        if name in of_preset:
            continue
        if small and name in TIME_ONLY:
            continue
        if name == "no-bias-gelu-fusion" and "disable-bias-linear" in flags:
            continue  # there is no bias to fuse
        if name == "hierarchical-context-parallel-sizes":
            value = ",".join(value.strip("[]").split())
        if name == "attention-backend":
            cells["attention_backend"] = "unfused" if value == "unfused" else "fused"
        elif name == "squared-relu":
            cells.update(squared_relu="true", swiglu="false")
        elif name in COLUMNS and not (name == "optimizer" and value == "adam"):
            column, fixed = COLUMNS[name]
            if ONE.get(name) != value.removesuffix(".0"):
                put(cells, column, fixed or value)
        elif flag not in WITHOUT_COST and name not in WITHOUT_COST:
            unknown.append(name.replace("-", "_"))
    if unknown:
        cells["other_flags"] = ";".join(unknown)


def convert(row):
    cells = {"model_type": "gpt2", "software": "megatron-core-2026" if row["env"] == "dev"
             else "megatron-core-2025"}
    if find_hardware(row["platform"]) is None:
        raise Unplaced(f'the platform "{row["platform"]}" is not known')
    cells["hardware"] = find_hardware(row["platform"])
    precision = find_precision(row["precision"], 2026)
    if precision is None:
        raise Unplaced(f'the precision "{row["precision"]}" is not known')
    cells.update(precision)
    # Megatron-LM's own defaults, unless a flag overrides them.
    cells.update(hidden_dropout="0.1", attention_dropout="0.1", cross_entropy_loss_fusion="false")
    names = {"world_size": "world_size", "dp": "data_parallel_size", "tp": "tensor_model_parallel_size",
             "pp": "pipeline_model_parallel_size", "cp": "context_parallel_size",
             "ep": "expert_model_parallel_size",
             "layers": "num_hidden_layers", "hidden": "hidden_size", "ffn": "intermediate_size",
             "heads": "num_attention_heads", "kv_groups": "num_key_value_heads", "seq": "seq_length",
             "vpp_layers": "num_layers_per_virtual_pipeline_stage", "mbs": "micro_batch_size",
             "gbs": "global_batch_size",
             "num_experts": "num_experts", "topk": "moe_router_topk"}
    for name, column in names.items():
        put(cells, column, row[name])
    cells["vocab_size"] = row["vocab_arg"] or "50257"
    if row["etp"] not in ("", row["tp"]):
        cells["expert_tensor_parallel_size"] = row["etp"]
    cells["zero_stage"] = "1" if row["dist_optimizer"] == "1" else "0"
    cells["sequence_parallel"] = "true" if row["sequence_parallel"] == "1" else "false"
    small = int(row["hidden"] or 0) <= SMALL
    preset = HYBRIDS.get(int(row["layers"] or 0)) if "hybrid-layer-pattern" in row["other_flags"] else None
    if preset and not small:  # its tokenizer's vocabulary, too
        for column in SIZES + ("vocab_size",):
            cells.pop(column, None)
        cells["model"] = preset
    put_flags(cells, row["other_flags"], small, MIXERS if preset and not small else ())
    put(cells, "peak_bytes", row["mem_max_allocated_bytes_last"])
    if not small:
        put(cells, "step_s", row["iter_s_median_2nd_half"])
    cells["label"] = f"{row['case']} {row['golden_tag']}"
    cells["source"] = row["commit"]
    return cells
