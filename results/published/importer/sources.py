"""One converter per kind of source: from a row as it is printed to columns of the dialect."""

from . import golden
from .bridge import MIXERS, offloaded, recipe
from .facts import find_hardware, find_model, find_precision, megatron_core
from .graphs import mlperf_graphs
from .parts import Unplaced, add_interleaving, is_mixture, model_of, put, year_of


def base(row, model, hardware, precision, year, **sizes):
    """Columns that most sources print: model, accelerator, precision and sizes."""
    cells = model_of(model)
    ours = find_hardware(hardware)
    if ours is None:
        raise Unplaced(f'the accelerator "{hardware}" is not known')
    cells["hardware"] = ours
    number = find_precision(precision, year)
    if number is None:
        raise Unplaced(f'the precision "{precision}" is not known')
    cells.update(number)
    names = {"gpus": "world_size", "tp": "tensor_model_parallel_size", "pp": "pipeline_model_parallel_size",
             "cp": "context_parallel_size", "ep": "expert_model_parallel_size",
             "etp": "expert_tensor_parallel_size",
             "dp": "data_parallel_size", "gbs": "global_batch_size", "mbs": "micro_batch_size",
             "seq": "seq_length"}
    for name, column in names.items():
        put(cells, column, sizes.get(name, row.get(name, "")))
    if not is_mixture(cells):
        for column in ("expert_model_parallel_size", "expert_tensor_parallel_size"):
            cells.pop(column, None)
    return cells


def megatron_recipe(cells, row, vp):
    """NVIDIA's recipes over Megatron-Core: distributed optimizer. With tensor parallelism also sequence
    parallelism, from size 4 with overlapped collectives."""
    tensor = int(cells.get("tensor_model_parallel_size") or 1)
    put(cells, "zero_stage", 1)
    put(cells, "sequence_parallel", "true" if tensor > 1 else "false")
    if tensor >= 4:
        put(cells, "tp_comm_overlap", "true")
    add_interleaving(cells, vp)


# Layers of the stages, the last of which also has the MTP module: pipeline_model_parallel_layout of the
# recipes (NVIDIA-NeMo/Megatron-Bridge@067f987d src/megatron/bridge/recipes/deepseek/h100/deepseek_v3.py,
# perf_recipes/deepseek), by the number of stages.
DEEPSEEK_LAYOUTS = {4: [16] * 3 + [13], 8: [8] * 7 + [5], 16: [4] * 15 + [1], 32: [1] + [2] * 30 + [0]}


def mixture_recipe(cells, row):
    """Megatron-Bridge's (perf_recipes of the same commit): every expert on one rank, dispatcher flex.
    Exceptions: Qwen3-235B on H100, with overlapped all-to-all, and B200."""
    if not is_mixture(cells):
        return
    spread_recipe(cells)
    if cells.get("num_hidden_layers") == "94" and cells["hardware"] in ("h100-sxm-80gb", "b200-sxm-180gb"):
        cells["moe_token_dispatcher_type"] = "alltoall"
        if cells["hardware"] == "h100-sxm-80gb":
            cells["overlap_moe_expert_parallel_comm"] = "true"


def spread_recipe(cells):
    cells["expert_tensor_parallel_size"] = "1"
    deepseek_recipe(cells)


def deepseek_recipe(cells):
    """Megatron-Bridge's of DeepSeek-V3, whose rates count the MTP module (260 GFLOP per token instead of
    249), and of Kimi-K2, which has none."""
    if cells.get("multi_latent_attention") != "true" or cells.get("num_hidden_layers") != "61":
        return
    if cells["num_experts"] == "256":
        cells["mtp_num_layers"] = "1"
    stages = int(cells.get("pipeline_model_parallel_size")
                 or 1) * int(cells.get("virtual_pipeline_chunks") or 1)
    if stages in DEEPSEEK_LAYOUTS:
        cells["layer_distribution"] = ",".join(map(str, DEEPSEEK_LAYOUTS[stages]))
        for column in ("account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split"):
            cells.pop(column, None)


def bridge_perf(row):
    year = year_of(row["release"], "20(\\d\\d)|^(\\d\\d)\\.")
    cells = base(row, row["model"], row["system"], row["precision"], year)
    cells["software"] = "megatron-bridge"
    if cells.get("fp8_recipe") == "unstated" and not cells.get("fp4_format"):
        cells["fp8_recipe"] = "tensorwise"  # its recipes: bf16, fp8cs (current scaling), fp8mx, nvfp4
    megatron_recipe(cells, row, row["vp"])
    if is_mixture(cells):
        spread_recipe(cells)
    cells.update(recipe(row))
    if row.get("fsdp", "") not in ("", "0"):
        cells.update(zero_stage=3, software="megatron-bridge-fsdp")
        put(cells, "cpu_offloading_num_layers", offloaded(row))
    if "lora" in row["phase"].lower():
        cells.update(frozen="lora", lora_targets="qkv")  # as its performance recipes
    note = (row["note"] + " " + row["model"]).lower()
    if is_mixture(cells):
        put(cells, "moe_router_force_load_balancing", "true" if "force-balanced" in note else "")
        if "tokendrop" in note:  # apply_moe_token_drop of its recipes: each expert has its even share, padded
            cells.update(moe_expert_capacity_factor="1", moe_pad_expert_input_to_capacity="true",
                         moe_token_dispatcher_type="alltoall")
    put(cells, "tokens_per_s_per_gpu", row["tokens_per_s_per_gpu"])
    put(cells, "model_tflops_per_gpu", row["model_tflops_per_gpu"])
    cells["label"] = f"{row['model']} {row['phase']} {row['system']} {row['release']}"
    cells["source"] = f"Megatron-Bridge {row['release']}, {row['source']}"
    return cells


def nemo_summary(row):
    cells = base(row, row["model"], row["system"], row["precision"], year_of(row["snapshot"], "(20\\d\\d)"))
    cells["software"] = "nemo-2024"
    megatron_recipe(cells, row, row["vp"])
    put(cells, "tokens_per_s_per_gpu", row["tokens_per_s_per_gpu"])
    put(cells, "model_tflops_per_gpu", row["model_tflops_per_gpu"])
    cells["label"] = f"{row['model']} {row['snapshot']}"
    return cells


def torchtitan(row):
    float8 = "fp8" in row["precision"]
    # for its 8-bit all-gather
    precision = row["precision"] if row["precision"] != "fp8" else "fp8 tensorwise"
    cells = base(row, row["model"], row["system"], precision, 2025, mbs=row["lbs"],
                 gbs=int(row["lbs"]) * int(row["fsdp"]))
    cells["software"] = "torchtitan-2025-float8" if float8 else "torchtitan-2025"
    if "async" in row["variant"]:
        cells["software"] += "-async"
    cells.update(zero_stage=3, sequence_parallel="true" if int(row["tp"]) > 1 else "false",
                 recompute_granularity="full" if row["ac"] == "full" else "selective")
    put(cells, "tokens_per_s_per_gpu", row["tokens_per_s_per_gpu"])
    put(cells, "peak_gib", row["memory_gib"])
    cells["label"] = f"{row['model']} FSDP{row['fsdp']} TP{row['tp']} {row['precision']} {row['variant']}"
    return cells


# Recomputed activations: remat_policy and CHECKPOINT_POLICY of NVIDIA/dgxc-benchmarking, v24.11.1 and v25.02.
JAX_POLICIES = {("MaxText", "llama-2-70b"): "maxtext-save-dot-except-mlp",
                ("MaxText", "llama-3-70b"): "maxtext-save-qkv-proj",
                ("Paxml", "gpt3-5b"): "paxml-save-dot-only",
                ("Paxml", "gpt3-175b"): "paxml-save-qkv-out-proj"}


def cells_model(row):
    found = find_model(row["model"])
    if found is None or (row["framework"], found[0]) not in JAX_POLICIES:
        raise Unplaced(f'what {row["framework"]} recomputes of "{row["model"]}" is not known')
    return found[0]


def dgxc(row):
    year = year_of(row["first_tag"], "v(\\d\\d)\\.")
    jax = row["framework"] in ("MaxText", "Paxml")
    cells = base(row, row["model"], row["system"], row["precision"], year)
    put(cells, "num_hidden_layers", row["layers"])
    if jax:
        cells["software"] = JAX_POLICIES[(row["framework"], cells_model(row))]
        cells["recompute_granularity"] = "selective"
        if cells.get("fp8_recipe"):
            cells["fp8_recipe"] = "delayed"  # Flax's and Praxis's products in 8 bits have no other
        if not row["mbs"]:  # no accumulation of gradients: a replica's share of the batch in one go
            put(cells, "num_microbatches", 1)
            cells["micro_batch_size"] = int(row["gbs"]) // int(row["gpus"])
        cells["zero_stage"] = 3
        # Paxml's parameters are sharded over one node (5B) or 16 (175B); the other ranks are replicas
        # (paxml/configure.sh).
        sharded = row["fsdp"] or {"gpt3-5b": 8, "gpt3-175b": 128}.get(cells_model(row), row["gpus"])
        if int(row["gpus"]) > int(sharded):
            cells["num_distributed_optimizer_instances"] = int(row["gpus"]) // int(sharded)
    else:
        cells["software"] = "nemo-2024" if year < 2025 else "nemo-2025"
        if cells.get("fp8_recipe"):
            cells["fp8_recipe"] = "delayed"  # bf16_with_fp8_mixed, which these recipes take
        megatron_recipe(cells, row, row["vp"])
    if "LORA" in row["note"]:
        cells.update(frozen="lora", lora_targets="qkv")  # NeMo's performance mode
    if row["consistent"] != "yes":
        raise Unplaced("contradicts itself: " + row["consistent"])
    put(cells, "step_s", row["step_s"])
    put(cells, "tokens_per_s", row["tokens_per_s"])
    put(cells, "mfu_percent", row["mfu_pct"])
    put(cells, "peak_tflops", row["peak_tflops_used"])
    cells["label"] = (f"{row['model']} {row['layers']} layers, {row['framework']} {row['precision']} "
                      f"{row['first_tag']}")
    return cells


def megascale(row):
    if not row["gpus"]:
        raise Unplaced("neither sizes nor a time are printed")
    cells = base(row, row["model"], row["gpu"], "bf16", 2024)
    put(cells, "vocab_size", row["vocab"])
    cells["software"] = megatron_core(2023) if "Megatron-LM" in row["system"] else row["system"].lower()
    if row["system"].startswith("+"):
        cells["software"] = "megascale"
        cells["other_flags"] = "cumulative ablation step"
    put(cells, "num_layers_per_virtual_pipeline_stage",
        2 if "VP6" in row["note"] else 1 if "VP3" in row["note"] else "")
    cells.update(zero_stage=1, sequence_parallel="true", recompute_granularity="unstated")
    put(cells, "step_s", row["iter_s"])
    if row["mfu_pct"]:
        cells.update(mfu_percent=row["mfu_pct"], peak_tflops=312)
        if not is_mixture(cells):
            cells["flops"] = "full-attention"
    cells["label"] = f"{row['table']} {row['model']} {row['system']}"
    cells["source"] = row["paper"]
    return cells


def mlperf_fp8_recipe(submission_round, benchmark):
    """The recipe of NVIDIA's implementation, which its partners submit too: amax histories in
    megatron_gpt_peft_tuning_config.yaml (v4.0 to v5.0). For the pretraining benchmarks FP8_RECIPE in
    conf/custom.yaml (v5.0: delayed unless set) and in config_common.sh (v5.1: tensorwise)."""
    if "lora" in benchmark or submission_round < "v5.1":
        return "delayed"
    return "tensorwise"


def mlperf_adapters(cells, row, year):
    """megatron_gpt_peft_tuning_config.yaml of v4.0 and v4.1: disable_parameter_transpose_cache.
    FP8_ACTIVATION (v4) of configurations of H200, FP8_ACT (v5) of those without context parallelism."""
    if year < 2025:
        cells["disable_parameter_transpose_cache"] = "true"
    narrow = "H200" in row["accelerator"] if year < 2025 else row["cp"] in ("", "1")
    if narrow:
        cells["activation_func_fp8_input_store"] = "true"


def mlperf(row):
    year = {"v3": 2023, "v4": 2024, "v5": 2025, "v6": 2026}.get(row["round"][:2])
    if year is None:
        raise Unplaced(f'the round "{row["round"]}" is not known')
    nvidia = "NVIDIA" in row["accelerator"]
    fp8, fp4 = row["fp8"] == "True", row["fp4"] == "True"
    mbs = row["mbs"]
    if nvidia and row["tp"] and ("lora" in row["benchmark"] or year >= 2025):
        # FP8=True and MBS=1, MICRO_BATCH_SIZE=1 are in NVIDIA's config_common.sh, which the files of nodes
        # read first.
        fp8, mbs = fp8 or not row["fp8"] and not fp4, mbs or "1"
    cells = base(row, row["benchmark"].replace("_", "-"), row["accelerator"],
                 "nvfp4" if fp4 else "fp8" if fp8 else "bf16",
                 year, mbs=mbs)
    if not row["fp8"] and not fp4 and not fp8:
        cells["fp8_recipe"] = "unstated"  # the configuration does not give the width of linear layers
    elif fp8 and not fp4 and nvidia:
        cells["fp8_recipe"] = mlperf_fp8_recipe(row["round"], row["benchmark"])
    if nvidia and (fp8 and year >= 2025 or year >= 2024 and "lora" not in row["benchmark"]):
        # conf/optim/distributed_fused_adam.yaml of v4.0: grad_sync_dtype bf16; pretrain.py and train.py
        # of v5.0: grad_reduce_in_fp32=False.
        cells["grad_dtype"] = "same"
    if fp8 and nvidia and year >= (2024 if "lora" in row["benchmark"] else 2025):
        cells["fp8_param_gather"] = "true"  # fp8_params
    if fp8 and nvidia and "lora" in row["benchmark"]:
        mlperf_adapters(cells, row, year)
    cells["software"] = megatron_core(year) if nvidia else f"mlperf-amd-{year}"
    megatron_recipe(cells, row, row["vp"])
    put(cells, "num_microbatches", row["microbatches_per_replica"])
    if row["asym_pp_embed_loss"] == "True":
        cells.update(account_for_embedding_in_pipeline_split="true",
                     account_for_loss_in_pipeline_split="true")
    if nvidia:
        cells["cuda_graph_impl"] = mlperf_graphs(row["round"], row["benchmark"], cells,
                                                 row["layer_cuda_graph"])
    if "lora" in row["benchmark"]:
        cells.update(frozen="lora", lora_targets="attention")
        if nvidia and cells.get("context_parallel_size", "1") not in ("", "1"):
            cells["cp_comm_type"] = "a2a"  # megatron_gpt_peft_tuning_config.yaml, CP_COMM_TYPE
    put(cells, "step_s", row["step_s_median"])
    put(cells, "tokens_per_s_per_gpu", row["tokens_per_s_per_gpu"])
    if row["pp"] == "1":  # the stage of the rank is unknown
        put(cells, "peak_gb", row["max_memory_gb_logged"])
    cells["label"] = f"{row['round']} {row['submitter']} {row['system']}"
    cells["source"] = f"MLPerf Training {row['round']}, {row['submitter']}"
    return cells


def bridge_verified(row):
    if row["usable"] != "yes":
        raise Unplaced("a functional run by its source's own words, not a measurement of speed")
    precision = {"fp8_mx": "mxfp8"}.get(row["precision"], row["precision"])
    cells = base(row, row["model"], row["system"], precision, 2026)
    cells["software"] = "megatron-bridge"
    megatron_recipe(cells, row, row["vp"])
    mixture_recipe(cells, row)
    # Recipes of that date (NVIDIA-NeMo/Megatron-Bridge@067f987d src/megatron/bridge/perf_recipes).
    cells.update(recipe({"model": row["model"], "phase": "Pre-Training", "system": row["system"],
                                "precision": precision.upper(), "release": "26.08"}))
    put(cells, "step_s", float(row["step_ms"]) / 1000)
    put(cells, "tokens_per_s_per_gpu", row["tokens_per_s_per_gpu"])
    put(cells, "model_tflops_per_gpu", row["model_tflops_per_gpu"])
    put(cells, "peak_gib", row["peak_allocated_gib"])
    cells["label"] = row["recipe"]
    cells["source"] = f"Megatron-Bridge recipe {row['recipe']}, {row['date']}"
    return cells


def community(row):
    cells = base(row, row["model"], row["system"], row["precision"], 2026, gbs=row["gbs"],
                 mbs=row["lbs_per_gpu"],
                 dp=row["dp_shard"])
    put(cells, "num_hidden_layers", row["layers"])
    put(cells, "hidden_size", row["hidden"])
    put(cells, "num_experts", row["experts"])
    put(cells, "moe_router_topk", row["topk"])
    name = row["framework"].lower()
    cells["software"] = ("megatron-core-2026" if "megatron" in name else "torchtitan-2025"
                         if "torchtitan" in name else
                         "jax")
    cells["recompute_granularity"] = "unstated"
    if "deepep" in name:
        cells["moe_token_dispatcher_type"] = "flex"
    for column, cell in (("tokens_per_s_per_gpu", "tokens_per_s_per_gpu"),
                         ("tokens_per_s", "tokens_per_s_total"),
                         ("step_s", "step_s"), ("model_tflops_per_gpu", "tflops_per_gpu"),
                         ("mfu_percent", "mfu_pct"),
                         ("peak_gib", "memory_gib")):
        put(cells, column, row[cell])
    cells["label"] = f"{row['model']} {row['framework']}"
    return cells


def folding(row):
    if row["table"] == "T5" and row["model"].startswith("Qwen2"):
        raise Unplaced("the paper's table 5 repeats another model's rows for this one")
    if row["mfu_pct"] == "OOM":
        raise Unplaced("no measured value: out of memory")
    if not row["gpus"]:
        raise Unplaced("the number of GPUs is not printed")
    cells = base(row, row["model"], "H100", row["precision"], 2025)
    cells["software"] = megatron_core(2025) if "MCore" in row["method"] else "megatron-fsdp"
    cells["zero_stage"] = 3 if row["method"].startswith("FSDP") else 1
    # Megatron-Core requires it of mixtures with tensor parallelism.
    cells["sequence_parallel"] = "true" if row["tp"] not in ("", "1") else "false"
    cells["recompute_granularity"] = "unstated"
    put(cells, "mfu_percent", row["mfu_pct"])
    put(cells, "model_tflops_per_gpu", row["tflops_per_gpu"])
    cells["label"] = f"{row['table']} {row['model']} {row['method']}"
    cells["source"] = f"arXiv:2504.14960 {row['table']}"
    return cells


def named_dispatcher(row):
    """The dispatcher that a row names. Studies of other switches kept the recipes' (flex)."""
    if "alltoall" in row["value"]:
        return "alltoall"
    overlap = row["variable"] == "ep_overlap" and "HybridEP" not in row["value"]
    return "alltoall or flex" if overlap else "flex"


def matched(row):
    cells = base(row, row["model"], row["system"], row["precision"], 2026)
    if row["outcome"].startswith("OOM") or not (row["step_ms"] or row["tflops_per_gpu"]
                                                or row["peak_allocated_gb"]):
        raise Unplaced("no measured value of a run that finished")
    cells["software"] = "megatron-bridge"
    megatron_recipe(cells, row, row["vp"])
    if "nemotron" in cells.get("model", ""):
        cells.update(MIXERS)  # nemotron_3_nano_pretrain_16gpu_h100_bf16_config
    if row["variable"] == "recompute_modules" and row["value"] != "[]":
        cells.update(recompute_granularity="selective", recompute_modules=row["value"].replace("+", ","))
    elif row["variable"] == "ep_overlap":
        put(cells, "overlap_moe_expert_parallel_comm", "true" if " on" in f" {row['value']}" else "")
    elif row["variable"] == "optimizer_offload_fraction":
        cells["optimizer_offload_fraction"] = row["value"]
    if is_mixture(cells):
        cells["moe_token_dispatcher_type"] = named_dispatcher(row)
    put(cells, "step_s", float(row["step_ms"]) / 1000 if row["step_ms"] else "")
    put(cells, "model_tflops_per_gpu", row["tflops_per_gpu"])
    put(cells, "peak_gb", row["peak_allocated_gb"])
    cells["label"] = f"{row['study']} {row['variable']} {row['value']}"
    cells["source"] = f"Megatron-Bridge, {row['study']}"
    return cells


def context(row):
    if "attention" in row["model"]:
        raise Unplaced("a kernel's time, not a training run's")
    if "moe_parallel_folding" in row["note"]:
        raise Unplaced("the same rows as moe_parallel_folding")
    cells = base(row, row["model"], row["system"], row["precision"],
                 2024 if "H100" in row["system"] else 2025)
    cells["software"] = "nemo-2024" if "H100" in row["system"] else megatron_core(2025)
    megatron_recipe(cells, row, "")
    cells["recompute_granularity"] = "unstated"
    if row["unit"].startswith("TFLOP"):
        put(cells, "model_tflops_per_gpu", row["value"])
        cells["flops"] = "causal-attention"
    else:
        put(cells, "mfu_percent", row["value"])
    cells["label"] = f"{row['model']} {row['seq']} tokens, {row['method']}"
    return cells


def simumax(row):
    precision = "bf16"
    cells = base(row, row["model"], row["system"], precision, 2025)
    put(cells, "num_hidden_layers", row["layers"])
    if cells.get("moe_layer_freq"):  # its DeepSeek models of four layers have one without experts
                                     # (configs/models)
        cells["moe_layer_freq"] = f"([0]*1+[1]*{int(row['layers']) - 1})"
    cells["software"] = megatron_core(2026)  # core_r0.14.0 (docs/b200/b200_real_repro_guide.md)
    if row["model"] == "llama3-405b":
        put(cells, "num_key_value_heads", 16)  # of its model file, not the published 8
    put(cells, "num_microbatches", row["microbatches"])
    put(cells, "zero_stage", 1)
    cells.update(overlap_grad_reduce="false", overlap_param_gather="false")  # its Megatron scripts' default
    put(cells, "sequence_parallel", "true" if int(row["tp"]) > 1 else "false")
    if is_mixture(cells):
        cells.update(moe_expert_capacity_factor=1, moe_pad_expert_input_to_capacity="true",
                     moe_token_dispatcher_type="alltoall")  # its Megatron scripts'
    put(cells, "cp_comm_type", row["cp_comm_type"])
    put(cells, "step_s", float(row["step_ms"]) / 1000)
    if row["memory_measured_in_case"] == row["case"]:
        put(cells, "peak_gib", row["peak_allocated_gib_max_rank"])
    cells["label"] = row["case"]
    return cells


# A file belongs to the first kind whose columns it all has.
KINDS = [
    ({"release", "phase", "fsdp", "ga", "tokens_per_s_per_gpu", "model_tflops_per_gpu"}, bridge_perf),
    ({"snapshot", "tokens_per_s_per_gpu", "vp"}, nemo_summary),
    ({"lbs", "ac", "variant", "fsdp"}, torchtitan),
    ({"first_tag", "framework", "consistent", "peak_tflops_used"}, dgxc),
    ({"paper", "table", "system", "iter_s"}, megascale),
    ({"round", "submitter", "benchmark", "step_s_median"}, mlperf),
    ({"case", "other_flags", "mem_max_allocated_bytes_last"}, golden.convert),
    ({"recipe", "usable", "step_ms"}, bridge_verified),
    ({"lbs_per_gpu", "dp_shard", "framework"}, community),
    ({"table", "method", "etp", "mfu_pct"}, folding),
    ({"study", "variable", "outcome"}, matched),
    ({"method", "value", "unit", "cp"}, context),
    ({"case", "memory_measured_in_case", "microbatches"}, simumax),
]


def kind_of(columns):
    """The converter of a file with these columns; None for one that holds no training runs."""
    for needed, convert in KINDS:
        if needed <= set(columns):
            return convert
    return None


