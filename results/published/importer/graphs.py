"""CUDA graphs of NVIDIA's implementations of MLPerf Training, which its partners submit too, by round,
benchmark and accelerator. Sources: files of nodes and those that they read, in
mlcommons/training_results_v4.0@6fe95437, v4.1@b87b9e39, v5.0@0fdc28f0, v5.1@441d65f4,
*/benchmarks/{gpt3,llama31_405b,llama31_8b,llama2_70b_lora}/implementations/*:
- LAYER_CUDA_GRAPH (v4.0 on) of a file of nodes: external_cuda_graph of conf/custom.yaml and
  megatron_gpt_peft_tuning_config.yaml.
- v5.0, llama31_405b: FULL_CUDA_GRAPH in config_common_cg.sh, which the files of GB200 read, and none of H100
  and H200.
- v5.0, llama2_70b_lora: MCORE_CUDA_GRAPH (layers) in files of B200 and GB200 with context parallelism.
- v5.1, llama31_405b and llama31_8b: MCORE_CUDA_GRAPH and FULL_CUDA_GRAPH in config_common_cg.sh, which the
  files of Blackwell read. FULL_CUDA_GRAPH=0 (layers) in those of NVFP4 on up to 32 GPUs.
- v5.1, llama2_70b_lora: MCORE_CUDA_GRAPH, cuda_graph_scope full_iteration, on GB300 and with context
  parallelism."""

STEP, LAYERS, CALLS = "full_iteration", "local", "transformer_engine"
# Submitters' files for B300 disagree; later rounds have not been read. Likelier first.
LIKELY, UNLIKELY = f"{STEP} or none", f"none or {STEP}"


def pretraining(number, hardware, narrow, gpus):
    if hardware.startswith("b300") or number > (5, 1):
        return LIKELY
    return LAYERS if narrow and gpus <= 32 else STEP


def adapters(number, hardware, context):
    if number > (5, 1):
        return LIKELY
    if number == (5, 1) and hardware.startswith("b300") and context == 1:
        return UNLIKELY
    if context == 1 and not (number == (5, 1) and hardware.startswith("gb300")):
        return "none"
    return STEP if number == (5, 1) else LAYERS


def mlperf_graphs(submission_round, benchmark, cells, layer_switch):
    """cuda_graph_impl of a run; several values, likelier first, where no file tells."""
    number = tuple(map(int, submission_round.strip("v").split(".")))
    hardware, context = cells["hardware"], int(cells.get("context_parallel_size") or 1)
    if number < (5, 0) or hardware.startswith("h"):
        if number > (5, 1):
            return UNLIKELY
        return CALLS if layer_switch not in ("", "0", "False") else "none"
    if "lora" in benchmark:
        return adapters(number, hardware, context)
    return pretraining(number, hardware, bool(cells.get("fp4_format")), int(cells.get("world_size") or 0))
