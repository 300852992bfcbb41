"""The steps of each part of a GPU slot, with their time limits. Parts 1 to 3 take twelve minutes: a card is
sometimes lent for a quarter of an hour, with the start of the machine. Within a part steps that have never
passed come first, else the most valuable; those that passed for the same sources are skipped (slot.py).

A step's seconds have a fixed part (start of the processes, context, first products timed, plans that cuDNN
compiles), measured on an H100 with 16 cores but for part 4 and reinforcement learning. For training they
add the predicted time of the steps. `limit` ends a step that takes longer; a part ends with its budget.
"""
import dataclasses

BUDGET = {1: 270, 2: 150, 3: 300, 4: 42 * 60}  # seconds

GPT2 = {"model_type": "gpt2", "n_positions": 1024, "vocab_size": 50257, "layer_norm_epsilon": 1e-5,
        "activation_function": "gelu_new"}
MODELS = {
    "tiny": {**GPT2, "n_layer": 2, "n_embd": 64, "n_head": 2, "vocab_size": 512},
    "gpt2-355m": {**GPT2, "n_layer": 24, "n_embd": 1024, "n_head": 16},
    # Six layers of Llama 3.1 8B at their full width.
    "llama-8b-6": {"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
                   "num_hidden_layers": 6, "num_attention_heads": 32, "num_key_value_heads": 8,
                   "vocab_size": 128256, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5,
                   "rope_theta": 5e5, "tie_word_embeddings": False},
    # The shape of Llama 3.2 1B.
    "llama-1b": {"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192,
                 "num_hidden_layers": 16,
                 "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256,
                 "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 5e5,
                 "tie_word_embeddings": True},
    # Two MoE models of 16 experts that fit one card: Mixtral's layers, and DeepSeek-V3's with latent
    # attention.
    "mixtral-1b": {"model_type": "mixtral", "hidden_size": 1024, "intermediate_size": 1792,
                   "num_hidden_layers": 12,
                   "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 32000,
                   "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 1e6,
                   "num_local_experts": 16,
                   "num_experts_per_tok": 2},
    "deepseek-1b": {"model_type": "deepseek_v3", "hidden_size": 1024, "intermediate_size": 4096,
                    "moe_intermediate_size": 896, "num_hidden_layers": 8, "first_k_dense_replace": 1,
                    "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 32000,
                    "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "rope_theta": 1e4,
                    "q_lora_rank": 512,
                    "kv_lora_rank": 256, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
                    "n_routed_experts": 16, "num_experts_per_tok": 4, "n_shared_experts": 1, "n_group": 4,
                    "topk_group": 2, "routed_scaling_factor": 2.5, "norm_topk_prob": True,
                    "scoring_func": "sigmoid", "topk_method": "noaux_tc"},
}
# Presets of the cards that a slot may have, by what nvidia-smi calls them.
CARDS = (("h200 nvl", "h200-nvl-141gb"), ("h200", "h200-sxm-141gb"), ("h100 pcie", "h100-pcie-80gb"),
         ("h100", "h100-sxm-80gb"))
HARDWARE = "h100-sxm-80gb"  # without a card
STEPS, WARMUP = 20, 3


@dataclasses.dataclass
class Step:
    name: str
    command: list  # words; {plumbline}, {bin}, {out}, {config}, {here} are filled in
    fixed: float  # seconds besides training steps
    limit: float  # seconds
    config: dict = None  # of a training run; its steps are added to the estimate
    environment: dict = dataclasses.field(default_factory=dict)
    # Its message, or its exit code, without a GPU: everything before the first kernel was there then.
    without_gpu: str = "no CUDA device|without a usable GPU|found cuda, but"
    needs: str = ""  # a file of an earlier step; without it the step is left out
    processes: int = 1  # at once, each with its share of a test program's tests


def hardware_of(card):
    """The preset of a card by its name; HARDWARE for one that is none of CARDS."""
    return next((preset for name, preset in CARDS if name in card.lower()), HARDWARE)


def training(name, model, fixed, limit, sequences=16, seq=1024, more=None, trace=False):
    """A run of one rank, 3 + 20 steps."""
    config = {"model": MODELS.get(model, model), "backend": "cuda", "hardware": HARDWARE, "precision": "bf16",
              "seq_length": seq, "micro_batch_size": sequences, "global_batch_size": sequences,
              "warmup_steps": WARMUP, "steps": STEPS, "timeout_s": limit, **(more or {})}
    words = ["{plumbline}", "run", "{config}", "--json"]
    if trace:
        words += ["--trace", "{out}/trace.json"]
    return Step(name, words, fixed, limit, config)


FP8 = {"precision": "fp8", "fp8_format": "hybrid", "fp8_recipe": "delayed"}

# Checked and timed through the communicator, beside the predictions.
COLLECTIVES = ["{plumbline}", "bench", "collective", "all-reduce", "all-gather", "reduce-scatter", "all-to-all",
               "all-to-all-uneven", "broadcast", "send-receive", "latency", "bandwidth", "--backend", "cuda",
               "--ranks", "2", "--time-limit", "0.2"]

# Isolated and batched times beside those of the tables.
OPERATORS = ["{plumbline}", "bench", "operator", "gemm", "attention", "experts", "memory-bound", "--backend",
             "cuda", "--type", "bf16", "--time-limit", "0.2", "--json"]

GPT2_124M = training("gpt2 124M", "gpt2-124m", 5, 40)
GPT2_1558M = training("gpt2 1558M", "gpt2-1558m", 8, 60, sequences=8)
LLAMA = training("llama 1B", "llama-1b", 8, 60, sequences=2, seq=4096)
PART1 = [
    Step("doctor", ["{plumbline}", "doctor", "--json"], 1, 30, without_gpu=""),
    # Checks that ranks start here at all, before any of them is on a GPU.
    Step("two processes", ["{plumbline}", "run", "{config}", "--json"], 1, 40,
         {"model": MODELS["tiny"], "backend": "cpu", "hardware": HARDWARE, "seq_length": 64,
          "micro_batch_size": 1,
          "global_batch_size": 2, "tensor_model_parallel_size": 2, "steps": 1, "warmup_steps": 1,
          "timeout_s": 30},
         without_gpu=""),
    # Facts that need a card: products and attention that the libraries have, 3 plans of cuDNN.
    Step("card", ["{bin}/micro_cuda_facts"], 4, 60),
    # Every operator against double arithmetic on the CPU, once; the shapes of whole layers are left to part
    # 4. The processes share 144 plans of cuDNN and the double arithmetic.
    Step("operators", ["{bin}/cuda_operators_test", "--gtest_filter=-LayerSizes*:*LayerSizes*"], 85, 130,
         processes=6),
    # 17 runs, three at once (more are slower: a collective takes milliseconds), and the watchdog's 35 s.
    Step("two ranks", ["{python}", "{here}/ranks.py", "{plumbline}", "{out}/ranks.jsonl", "--short", "--jobs",
                       "3"], 110, 160),
    # Five runs, three at once.
    Step("reinforcement learning", ["{python}", "{here}/reinforcement.py", "{plumbline}",
                                    "{out}/reinforcement.jsonl", "--jobs", "3"], 40, 90),
]
PART2 = [
    # Among them weight gradients with and without the bias's, sums and norms in one operator and in two. 130
    # times of 0.2 s, and 34 products, whose algorithms are chosen by time.
    Step("operator rates", ["{bin}/micro_cuda_operators", "32768", "0"], 13, 60),
    # 28 plans of cuDNN, 42 times.
    Step("attention rates", ["{bin}/micro_cuda_attention"], 12, 60),
    GPT2_124M,
    GPT2_1558M,
    LLAMA,
    # Half a minute at the clocks that power and heat allow.
    training("llama 8B, 6 layers", "llama-8b-6", 10, 60, sequences=1, seq=4096, more={"steps": 300}),
    Step("node", ["{plumbline}", "doctor", "--nodes", "--ranks", "1", "--backend", "cuda", "--json", "--passing",
                  "{out}/passing_nodes.txt"], 6, 40),
    Step("operators beside predictions", OPERATORS, 12, 40),
    Step("collectives", [*COLLECTIVES, "--sizes", "8:16M:4"], 30, 60),
]
PART3 = [
    Step("calibration", ["{plumbline}", "calibrate", "--backend", "cuda", "--out", "{out}/profile.json"], 60,
         150),
    training("gpt2 355M", "gpt2-355m", 6, 60),
    # Updates after 0.5 M tokens, as published runs have them: the optimizer's share is 0.2 %.
    training("gpt2 1558M, 0.5 M tokens", "gpt2-1558m", 9, 90, sequences=8,
             more={"global_batch_size": 512, "warmup_steps": 1, "steps": 2}),
    training("llama 1B FP8", "llama-1b", 10, 60, sequences=2, seq=4096, more=FP8),
    # Rows of experts change from step to step: nothing is timed for their products.
    training("mixture", "mixtral-1b", 9, 60, sequences=4, seq=2048),
    training("mixture with latent attention", "deepseek-1b", 9, 60, sequences=2, seq=1024),
    training("gpt2 124M trace", "gpt2-124m", 5, 60, trace=True),
    # Deterministic attention backward; otherwise as in part 2.
    training("llama 1B deterministic", "llama-1b", 10, 60, sequences=2, seq=4096,
             more={"deterministic_mode": True}),
]
# Predictions of the measured steps, from that calibration.
PART3 += [
    Step(f"predict {step.name}", ["{plumbline}", "predict", "{config}", "--hardware", "{out}/profile.json",
                                  "--json"], 1,
         15, step.config, without_gpu="", needs="{out}/profile.json")
    for step in (GPT2_124M, GPT2_1558M, LLAMA, *(step for step in PART3[1:6]))
]
SANITIZED = ("Attention.F*:Attention.W*:AttentionDropout.F*:Dropout.*:Norms.*:Embedding.*:CrossEntropy.L*:"
             "VocabularyParallel.*:Activations.*:Rope.*:Optimizer.*:Fp8.*")
PART4 = [
    Step("operators, other numbers", ["{bin}/cuda_operators_test"], 150, 300,
         environment={"PLUMBLINE_TEST_SEED": "1"}),
    Step("memcheck", ["compute-sanitizer", "--tool", "memcheck", "--error-exitcode", "9",
                      "{bin}/cuda_operators_test",
                      "--gtest_filter=" + SANITIZED], 240, 300, without_gpu=""),
    Step("initcheck", ["compute-sanitizer", "--tool", "initcheck", "--error-exitcode", "9",
                       "{bin}/cuda_operators_test", "--gtest_filter=Attention.F*:Norms.F*:Embedding.*"], 240,
                       300, without_gpu=""),
    Step("racecheck", ["compute-sanitizer", "--tool", "racecheck", "--error-exitcode", "9",
                       "{bin}/cuda_operators_test",
                       "--gtest_filter=Attention.F*:AttentionDropout.F*:Norms.F*:Embedding.*:Fp8.*"], 240,
                       300,
         without_gpu=""),
    Step("collectives in registered memory", [*COLLECTIVES, "--sizes", "8:16M:4", "--registered"], 40, 80),
    Step("collectives in bf16", [*COLLECTIVES, "--sizes", "8:16M:4", "--type", "bf16"], 30, 60),
    Step("exhaustive search", ["{bin}/micro_cuda_operators", "32768", "10"], 330, 400),
    Step("families", ["{python}", "{here}/families.py", "{plumbline}", "{out}/families.jsonl", "--jobs", "4"],
         90, 150),
    *(Step(f"ranks: {checks}", ["{python}", "{here}/ranks.py", "{plumbline}", f"{{out}}/ranks_{checks}.jsonl",
                                "--jobs", "3",
                                "--only", checks], seconds, 2 * seconds)
      for checks, seconds in (("splits", 200), ("mixtures", 200), ("fp8", 240), ("dropout", 80),
                              ("fp8_mixtures", 40),
                              ("lanes", 25), ("device_memory", 15))),
    Step("collectives of 1 GiB", [*COLLECTIVES, "--sizes", "64M:1G:4"], 150, 300),
]
PARTS = {1: PART1, 2: PART2, 3: PART3, 4: PART4}
