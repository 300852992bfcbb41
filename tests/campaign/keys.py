"""Keys without effect: a value other than the default changes the prediction or the run, is refused, or is
named in a note."""
import json

from .bench import one_line

MODELS = {
    "dense": {"model_type": "qwen2", "num_hidden_layers": 8, "hidden_size": 1024, "num_attention_heads": 8,
              "num_key_value_heads": 8, "intermediate_size": 2816, "vocab_size": 32000,
              "max_position_embeddings": 4096,
              "rms_norm_eps": 1.0e-6, "tie_word_embeddings": True},
    "mixture": {"model_type": "mixtral", "num_hidden_layers": 8, "hidden_size": 1024,
                "num_attention_heads": 8,
                "num_key_value_heads": 8, "intermediate_size": 2816, "vocab_size": 32000,
                "max_position_embeddings": 4096,
                "rms_norm_eps": 1.0e-6, "tie_word_embeddings": False, "num_local_experts": 4,
                "num_experts_per_tok": 2}}
# Settings that other keys need.
SWITCHES = [{"tp": "2"}, {"tp": "2", "sequence_parallel": "true"}, {"pp": "2"}, {"pp": "4"}, {"dp": "2"},
            {"dp": "4"},
            {"cp": "2"}, {"dp": "2", "zero_stage": "1"}, {"dp": "2", "zero_stage": "3"},
            {"dp": "2", "ep": "2"},
            {"precision": "fp8"}, {"precision": "fp32"}, {"recompute_granularity": "full"},
            {"optimizer": "sgd"},
            {"pp": "2", "pipeline_schedule": "zb-auto"}, {"backend": "emulated"},
            {"moe_expert_capacity_factor": "1.5"}]
# None of them a default.
PREDICTED = {
    "cuda_graph_impl": "local", "cuda_graph_modules": "attn", "virtual_pipeline_chunks": "2",
    "context_parallel_size": "4",
    "cp_comm_type": "all_gather", "hierarchical_context_parallel_sizes": "2,2", "cp_load_balance": "false",
    "expert_model_parallel_size": "4", "moe_token_dispatcher_type": "allgather", "sequence_parallel": "true",
    "tp_comm_overlap": "true", "overlap_moe_expert_parallel_comm": "true",
    "moe_shared_expert_overlap": "true", "delay_wgrad_compute": "true",
    "tp_reduce_in_fp32": "false", "vocab_parallel": "vocab-1", "layer_distribution": "1,7",
    "pipeline_schedule": "gpipe",
    "zero_bubble_memory": "0.5", "zero_stage": "2", "num_distributed_optimizer_instances": "2",
    "zero_hpz_partition_size": "2", "overlap_p2p_comm": "true", "defer_embedding_wgrad_compute": "true", "wgrad_deferral_limit": "2",
    "overlap_grad_reduce": "false", "overlap_param_gather": "true",
    "align_param_gather": "false", "overlap_param_gather_with_optimizer_step": "true",
    "fsdp_double_buffer": "true", "recompute_granularity": "selective",
    "recompute_num_layers": "2", "recompute_modules": "mlp", "cpu_offloading_num_layers": "1", "offload_modules": "core_attn",
    "optimizer_offload_fraction": "1", "offload_params": "true",
    "attention_backend": "unfused", "hidden_dropout": "0.1", "attention_dropout": "0.1",
    "cross_entropy_loss_fusion": "false", "deterministic_mode": "true", "moe_expert_capacity_factor": "2",
    "moe_expert_rank_capacity_factor": "1.5", "moe_paged_stash": "true",
    "moe_paged_stash_buffer_size_factor_cuda": "1.3", "moe_pad_expert_input_to_capacity": "true", "moe_routing": "worst", "prefix_length": "16",
    "images_per_sequence": "1", "image_tokens": "100",
    "seq_length": "256",
    "mbs": "2", "gbs": "32", "precision": "fp32", "fp8_format": "e4m3", "fp8_recipe": "tensorwise",
    "fp8_amax_history_len": "7", "fp8_param_gather": "true", "disable_parameter_transpose_cache": "true",
    "activation_func_fp8_input_store": "true", "fp4_format": "e2m1",
    "first_last_layers_bf16": "true", "num_layers_at_start_in_bf16": "2", "num_layers_at_end_in_bf16": "0",
    "fp8_dot_product_attention": "true", "grad_dtype": "same", "optimizer": "sgd",
    "sgd_momentum": "0.9", "muon_nesterov": "true", "muon_num_ns_steps": "3", "muon_tp_mode": "blockwise",
    "muon_split_qkv": "false",
    "exp_avg_dtype": "bf16", "exp_avg_sq_dtype": "fp8", "store_param_remainders": "true",
    "frozen": "lora", "lora_rank": "3", "lora_alpha": "5", "lora_targets": "all", "frozen_weights": "nf4", "freeze_language_model": "true", "freeze_vision_model": "true",
    "freeze_vision_projection": "true",
    "make_vocab_size_divisible_by": "1024",
    "ddp_bucket_size": "1000000000", "memory_budget": "1MiB", "nccl_ub": "true",
    "emulated_time_factor": "0.5",
    "emulated_clock": "virtual", "mtp_num_layers": "1", "mtp_use_repeated_layer": "true", "keep_mtp_spec_in_bf16": "true", "mtp_loss_scaling_factor": "0.5",
    "distillation_temperature": "2", "num_prompts_per_step": "8", "num_generations_per_prompt": "4",
    "ppo_epochs": "2", "rollout_software": "vllm", "rl_framework": "nemo-rl", "rollout_placement": "resident",
    "rollout_tensor_model_parallel_size": "2", "max_num_seqs": "16", "max_num_batched_tokens": "4096",
    "gpu_memory_utilization": "0.5",
    "response_length_mean": "64", "kl_loss_coef": "0", "kl_loss_type": "k1"}
# Keys whose prediction need not change: the meaning of auto there, clocks of runs, and formats of equal size
# and speed.
EXPECTED = {("overlap_param_gather", "zero_stage", "3"), ("emulated_time_factor", "backend", "emulated"),
            ("emulated_clock", "backend", "emulated"), ("fp8_format", "precision", "fp8")}
EXECUTED = {"seed": "5", "learning_rate": "0.5", "weight_decay": "90", "clip_grad": "0.01",
            "hidden_dropout": "0.2",
            "attention_dropout": "0.2", "steps": "5", "warmup_steps": "3", "precision": "bf16",
            "fp8_format": "e4m3",
            "moe_aux_loss_coeff": "5", "moe_z_loss_coeff": "5", "fp8_margin": "9", "optimizer": "sgd"}


def settings(values):
    return [f"--set={key}={value}" for key, value in values.items()]


def asked(bench, command, values):
    ended = bench.run([*command, "--json", "--quiet", *settings(values)], limit=60)
    findings = bench.check_end(ended, (0, 2, 3))
    if findings or ended.returncode == 2:
        return ended, None, findings
    try:
        record = json.loads(ended.stdout)
    except ValueError:
        return ended, None, [f"printed no JSON: {one_line(ended.stdout)}"]
    return ended, record, []


def without_settings(record):
    return {key: value for key, value in record.items() if key not in ("config", "machine", "id")}


def inject(bench, chance):
    executed = chance.random() < 0.1
    if executed:
        command, figures = ["run", "run.yaml"], lambda record: record["measurement"]["losses"]
        keys = EXECUTED
        given = {"precision": "fp8"} if chance.random() < 0.3 else {}
    else:
        model = json.dumps(MODELS[chance.choice(list(MODELS))])
        command, figures = ["predict", "--model", model, "--hardware", "h100-sxm-80gb"], without_settings
        keys, given = PREDICTED, {"seq_length": "1024", "gbs": "64"}
        for switch in chance.sample(SWITCHES, chance.randint(0, 3)):
            given |= switch
    key = chance.choice([each for each in keys if each not in given
                         and not any((each, *other) in EXPECTED for other in given.items())])
    before, expected, findings = asked(bench, command, given)
    if expected is None:
        return [f"{settings(given)}: {finding}" for finding in findings]
    after, record, findings = asked(bench, command, given | {key: keys[key]})
    if record is not None and after.returncode == before.returncode and figures(record) == figures(expected):
        if f"{key}: found {keys[key]}, without effect" not in after.stderr:
            findings.append("changes nothing, and nobody says so")
    return [f"{'run' if executed else 'predict'} {settings(given)} {key} {keys[key]}: {finding}"
            for finding in findings]
