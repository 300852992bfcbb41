"""Meaning of the names in published tables: models, accelerators, software, precisions."""

import re


def gpt(layers, hidden, heads, vocab, **more):
    return {"model_type": "gpt2", "num_hidden_layers": layers, "hidden_size": hidden,
            "num_attention_heads": heads,
            "vocab_size": vocab, **more}


def llama(layers, hidden, heads, kv, ffn, vocab, **more):
    return {"model_type": "llama", "num_hidden_layers": layers, "hidden_size": hidden,
            "num_attention_heads": heads,
            "num_key_value_heads": kv, "intermediate_size": ffn, "vocab_size": vocab, **more}


def nemotron(layers, hidden, heads, kv, vocab=256000):
    """Squared ReLU in a layer with one projection into the feed-forward width, no biases
    (arXiv:2402.16819)."""
    return llama(layers, hidden, heads, kv, 4 * hidden, vocab, swiglu="false", add_bias_linear="false",
                 normalization="LayerNorm", squared_relu="true")


def mixture(layers, hidden, heads, kv, expert_ffn, vocab, experts, topk, shared_ffn=0, **more):
    return llama(layers, hidden, heads, kv, expert_ffn, vocab, num_experts=experts, moe_router_topk=topk,
                 moe_ffn_hidden_size=expert_ffn, moe_shared_expert_intermediate_size=shared_ffn, **more)


def deepseek(layers, hidden, heads, expert_ffn, vocab, experts, topk, shared_ffn, dense, dense_ffn,
             query_rank=1536):
    """Latent attention; the first layers are dense (config.json: first_k_dense_replace,
    intermediate_size)."""
    model = mixture(layers, hidden, heads, heads, expert_ffn, vocab, experts, topk, shared_ffn,
                    multi_latent_attention="true", kv_lora_rank=512, qk_head_dim=128, qk_pos_emb_head_dim=64,
                    v_head_dim=128,
                    moe_layer_freq=f"([0]*{dense}+[1]*{layers - dense})")
    model["intermediate_size"] = dense_ffn
    if query_rank:
        model["q_lora_rank"] = query_rank
    return model


# Megatron-Core's names of the provider's settings (megatron/bridge/models/gpt_oss/gpt_oss_bridge.py). A
# learned number per head in the softmax and a clamped activation are parts of existing kernels.
GPT_OSS = {"add_bias_linear": "true", "window_size": 128, "window_attn_skip_freq": 2}
QWEN3 = {"qk_layernorm": "true", "head_dim": 128}
# Hybrid mixtures, presets of the program; by the layers of their patterns (NVIDIA/Megatron-LM@d98e8a64,
# examples/post_training/modelopt/conf/nvidia).
HYBRIDS = {52: "nemotron-3-nano-30b-a3b", 88: "nemotron-3-super-120b-a12b", 108: "nemotron-3-ultra-550b-a55b"}
NANO, SUPER, ULTRA = ({"model": name} for name in HYBRIDS.values())

# From the models' config.json files; GPT-3 5B and 20B from NeMo's recipes, checked by FLOPs per token.
MODELS = {
    "llama-2-7b": llama(32, 4096, 32, 32, 11008, 32000),
    "llama-2-70b": llama(80, 8192, 64, 8, 28672, 32000),
    "llama-3-8b": llama(32, 4096, 32, 8, 14336, 128256),
    "llama-3-70b": llama(80, 8192, 64, 8, 28672, 128256),
    "llama-3.1-8b": {"model": "llama-3.1-8b"},
    "llama-3.1-70b": {"model": "llama-3.1-70b"},
    "llama-3.1-405b": {"model": "llama-3.1-405b"},
    "gpt3-5b": gpt(24, 4096, 32, 51200),
    "gpt3-20b": gpt(44, 6144, 48, 51200),
    "gpt3-175b": gpt(96, 12288, 96, 51200),
    "gpt-175b": gpt(96, 12288, 128, 64000),
    "gpt-530b": gpt(105, 20480, 160, 64000),
    "nemotron-8b": nemotron(32, 4096, 32, 32),
    "nemotron4-15b": nemotron(32, 6144, 48, 8),
    "nemotron-22b": nemotron(40, 6144, 48, 48),
    "nemotron-340b": nemotron(96, 18432, 96, 8),
    "grok1-314b": mixture(64, 6144, 48, 8, 32768, 131072, 8, 2),
    "mixtral-8x7b": mixture(32, 4096, 32, 8, 14336, 32000, 8, 2),
    "mixtral-8x22b": mixture(56, 6144, 48, 8, 16384, 32000, 8, 2),
    "qwen2-57b-a14b": mixture(28, 3584, 28, 4, 2560, 151936, 64, 8, 20480),
    "qwen3-8b": llama(36, 4096, 32, 8, 12288, 151936, **QWEN3),
    "qwen3-30b-a3b": mixture(48, 2048, 32, 4, 768, 151936, 128, 8, **QWEN3),
    "qwen3-235b-a22b": mixture(94, 4096, 64, 4, 1536, 151936, 128, 8, **QWEN3),
    "deepseek-v2": deepseek(60, 5120, 128, 1536, 102400, 160, 6, 3072, 1, 12288),
    "deepseek-v2-lite": deepseek(27, 2048, 16, 1408, 102400, 64, 6, 2816, 1, 10944, query_rank=0),
    "deepseek-v3": deepseek(61, 7168, 128, 2048, 129280, 256, 8, 2048, 3, 18432),
    "kimi-k2": deepseek(61, 7168, 64, 2048, 163840, 384, 8, 2048, 1, 18432),
    # A learned sink per head, a clamped gate that has no fused kernel, a window in every other layer: not
    # modelled.
    "gpt-oss-20b": mixture(24, 2880, 64, 8, 2880, 201088, 32, 4, head_dim=64, **GPT_OSS),
    "gpt-oss-120b": mixture(36, 2880, 64, 8, 2880, 201088, 128, 4, head_dim=64, **GPT_OSS),
    # For these only the fields that keep them from being modelled are known.
    "moe-352b": {"num_experts": 32, "moe_router_topk": 3},
    "mixtral-8x22b-g8t8": {"num_experts": "unstated"},
    "llama3-8x70b": {"num_experts": 8},
    "moonlight-16b-a3b": {"num_experts": 64, "moe_router_topk": 6, "multi_latent_attention": "true"},
    "deepseek-v4-flash": {"num_experts": "unstated", "multi_latent_attention": "true"},
    "glm-5.2": {"num_experts": 256, "moe_router_topk": 8, "multi_latent_attention": "true"},
    "nemotron-3-nano": NANO, "nemotron-3-super": SUPER,
    "nemotron-3-ultra": ULTRA | {"activation_offload": "fine-grained"},
    "nemotron-3.5-lightning": NANO | {"mtp_num_layers": 2}, "nemotron-3-nano-4b": {"hybrid_layer_pattern": "mamba"},
}

# Other spellings, after letters are made small and every other character a dash.
SPELLINGS = [
    (r"(nvidia-)?llama-?3-1-405b", "llama-3.1-405b"), (r"llama-?3-405b", "llama-3.1-405b"),
    (r"llama-?3-1-70b", "llama-3.1-70b"), (r"llama-?3-1-8b", "llama-3.1-8b"),
    (r"llama-?3-70b(-sft)?", "llama-3-70b"), (r"llama-?3-8b", "llama-3-8b"),
    (r"llama-?2-70b(-lora)?", "llama-2-70b"), (r"llama-?2-7b", "llama-2-7b"), (r"llama31-8b", "llama-3.1-8b"),
    (r"llama31-405b", "llama-3.1-405b"),
    (r"gpt-?3", "gpt3-175b"), (r"gpt-?3-(\d+b)", r"gpt3-\1"), (r"nemotron-?4-340b", "nemotron-340b"),
    (r"nemotron-?4-15b", "nemotron4-15b"), (r"grok-?1(-314b)?", "grok1-314b"),
    (r"deepseek-?v3(-dropless|-tokendrop)?", "deepseek-v3"), (r"deepseek-?v2", "deepseek-v2"),
    (r"deepseek-v3-16b.*", "deepseek-v2-lite"), (r"deepseek-?v4-flash", "deepseek-v4-flash"),
    (r"kimi-k2", "kimi-k2"), (r"gpt-oss-(\d+b)", r"gpt-oss-\1"),
    (r"qwen3-30b-a3b(-tokendrop)?", "qwen3-30b-a3b"), (r"qwen3-235b-a22b(-tokendrop)?", "qwen3-235b-a22b"),
    (r"nemotron-3-5-lightning", "nemotron-3.5-lightning"), (r"nemotron-3-nano(-30b-a3b)?", "nemotron-3-nano"),
    (r"nemotron-3-super(-120b-a12b)?", "nemotron-3-super"), (r"glm-?5-2", "glm-5.2"),
    (r"marin-.*", "marin"),
]
MODELS["marin"] = {"num_experts": "unstated"}


def find_model(name):
    """Columns of the model, and its name; None when it is not known."""
    key = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    for pattern, replacement in SPELLINGS:
        if re.fullmatch(pattern, key):
            key = re.sub(pattern, replacement, key)
            break
    for known in (key, name.lower()):
        if known in MODELS:
            return known, dict(MODELS[known])
    return None


ACCELERATORS = [
    (r"96 ?GB HBM2e.*500 W", "h100-grand-teton-96gb"), (r"H200-NVL", "h200-nvl-141gb"),
    (r"H200", "h200-sxm-141gb"),
    (r"H800", "h800-sxm-80gb"), (r"H20\b", "h20-sxm-96gb"), (r"H100", "h100-sxm-80gb"),
    (r"GB200", "gb200-nvl72"),
    (r"GB300", "gb300-nvl72"), (r"B200", "b200-sxm-180gb"), (r"B300", "b300-sxm-270gb"),
    (r"A100", "a100-sxm-80gb"),
    (r"MI(300X|325X|350X|355X)", None),
]


def find_hardware(name):
    """Our name of an accelerator; None when it is not known."""
    for pattern, ours in ACCELERATORS:
        found = re.search(pattern, name, re.IGNORECASE)
        if found:
            return ours or f"mi{found.group(1).lower()}"
    return None


def megatron_core(year):
    return f"megatron-core-{year}"


# Transformer Engine had one 8-bit recipe for training until 2.0, in February 2025: delayed scaling.
def fp8_of_year(year):
    return {"precision": "fp8", "fp8_recipe": "delayed" if year < 2025 else "unstated"}


def find_precision(text, year):
    """Columns of a printed precision; None when it is not known."""
    key = text.lower().replace("_", "-").replace(" ", "-")
    known = {
        "bf16": {"precision": "bf16"}, "fp16": {"precision": "fp16"}, "fp8": fp8_of_year(year),
        "fp8-delayed": {"precision": "fp8", "fp8_recipe": "delayed"},
        "fp8-cs": {"precision": "fp8", "fp8_recipe": "tensorwise"},
        "fp8-tensorwise": {"precision": "fp8", "fp8_recipe": "tensorwise"},
        "fp8-rowwise": {"precision": "fp8", "fp8_recipe": "rowwise"},
        "mxfp8": {"precision": "fp8", "fp8_recipe": "mxfp8"},
        "fp8-mx": {"precision": "fp8", "fp8_recipe": "mxfp8"},
        "nvfp4": {"precision": "bf16", "fp4_format": "e2m1"},
        "bf16+fp8-hybrid-tensorwise": {"precision": "fp8", "fp8_recipe": "tensorwise"},
        "+fp8-e4m3-tensorwise": {"precision": "fp8", "fp8_format": "e4m3", "fp8_recipe": "tensorwise"},
        "bf16+fp8-hybrid-blockwise": {"precision": "fp8", "fp8_recipe": "blockwise"},
        "bf16+fp8-e4m3-mxfp8": {"precision": "fp8", "fp8_format": "e4m3", "fp8_recipe": "mxfp8"},
    }
    if key.startswith("fp8-subchannel"):
        return {"precision": "fp8", "fp8_recipe": "blockwise"}
    return dict(known[key]) if key in known else None
