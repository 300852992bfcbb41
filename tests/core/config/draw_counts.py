"""Draws config.json files of the predicted families and writes what transformers makes of them.

    python draw_counts.py [FILES] [OUT]        needs torch and transformers

Every family of OPTIONS has a base and the values that its keys may take. A file is the base with one to six
keys drawn anew. Its facts are the parameters of the model, built on the meta device, and every layer's window
(or chunk). counted_files_test holds plumbline against OUT, counted_files.json beside this script by default,
with FILES (default 10) files of every family. Files that transformers refuses are drawn again.
"""

import json
import pathlib
import random
import sys

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

import warnings

import torch
import transformers
from transformers import CONFIG_MAPPING

OUT = pathlib.Path(__file__).parent / "counted_files.json"
BOTH = (True, False)
DENSE = dict(
    vocab_size=(61, 97), hidden_size=(64, 96, 32), intermediate_size=(48, 80),
    num_hidden_layers=(4, 1, 3, 7, 12),
    num_attention_heads=(8, 4, 16), num_key_value_heads=(4, 2, 1), max_position_embeddings=(32, 64),
    tie_word_embeddings=BOTH,
)  # fmt: skip
BIASED = dict(DENSE, attention_bias=BOTH)
HEADS = dict(head_dim=(16, 8, 32))
WINDOW = dict(sliding_window=(8, 4, 16))
EXPERTS = dict(num_local_experts=(8, 4), num_experts_per_tok=(2, 1, 3))
DEEP = dict(
    moe_intermediate_size=(24, 40), n_routed_experts=(8, 16), num_experts_per_tok=(2, 1),
    n_shared_experts=(1, 2),
    first_k_dense_replace=(0, 1), n_group=(1, 2), topk_group=(1,), norm_topk_prob=BOTH,
    routed_scaling_factor=(1.0, 2.5),
)  # fmt: skip
LATENT = dict(q_lora_rank=(20, None, 12), kv_lora_rank=(16, 24), qk_nope_head_dim=(10, 8),
              qk_rope_head_dim=(6, 4), v_head_dim=(12, 8))
FACTORS = {key: (2.0, 0.5) for key in ("embedding_multiplier", "logits_scaling", "residual_multiplier",
                                       "attention_multiplier")}
SPARSE = dict(
    num_experts=(8, 4), num_experts_per_tok=(2, 1), moe_intermediate_size=(24, 40), norm_topk_prob=BOTH,
    decoder_sparse_step=(1, 2, 3), mlp_only_layers=([], [0], [0, 1], [2]),
)  # fmt: skip
ROPE_LAYERS = dict(no_rope_layer_interval=(4, 2, 3), no_rope_layers=(None, [1, 0] * 6, [1] * 12, [0] * 12))
OPTIONS = {
    # Executed families with switches that are predicted.
    "llama": dict(BIASED, mlp_bias=BOTH, hidden_act=("silu", "gelu", "relu")),
    "qwen3": dict(BIASED, **HEADS),
    "gemma": dict(BIASED, **HEADS),
    "nemotron": dict(BIASED, hidden_size=(64, 128), mlp_bias=BOTH),
    "qwen3_moe": dict(BIASED, **HEADS, **SPARSE),
    "qwen2_moe": dict(DENSE, **SPARSE, shared_expert_intermediate_size=(20, 32)),
    # Predicted families.
    "gemma2": dict(BIASED, **HEADS, **WINDOW, attn_logit_softcapping=(50.0, None)),
    "gemma3_text": dict(BIASED, **HEADS, **WINDOW, sliding_window_pattern=(6, 2, 3)),
    "olmo": dict(BIASED, clip_qkv=(None, 8.0)),
    "olmo2": BIASED,
    "olmo3": dict(BIASED, **WINDOW),
    "exaone4": dict(DENSE, sliding_window=(8, 4), sliding_window_pattern=(4, 2)),
    "glm4": dict(BIASED, **HEADS),
    "smollm3": dict(BIASED, mlp_bias=BOTH, **ROPE_LAYERS, use_sliding_window=BOTH,
                    sliding_window=(None, 4, 8)),
    "seed_oss": dict(BIASED, **HEADS, attention_out_bias=BOTH, mlp_bias=BOTH),
    "apertus": BIASED,
    "arcee": dict(BIASED, mlp_bias=BOTH),
    "granite": dict(BIASED, mlp_bias=BOTH, **FACTORS),
    "cohere": dict(BIASED, use_qk_norm=BOTH, logit_scale=(0.5, 1.0)),
    "cohere2": dict(BIASED, **WINDOW, sliding_window_pattern=(4, 2, 3)),
    "hunyuan_v1_dense": dict(BIASED, **HEADS),
    "ernie4_5": dict(DENSE, **HEADS, use_bias=BOTH),
    "ministral": dict(DENSE, **HEADS, **WINDOW),
    "ministral3": dict(DENSE, **HEADS),
    "minicpm3": dict(DENSE, num_key_value_heads=(8,), num_attention_heads=(8,),
                     **dict(LATENT, v_head_dim=(12, 8, None))),
    "stablelm": dict(DENSE, hidden_size=(64, 128), num_attention_heads=(8, 4), use_qkv_bias=BOTH,
                     use_parallel_residual=BOTH),
    "gpt_neox": dict(
        {k: v for k, v in DENSE.items() if k != "num_key_value_heads"}, hidden_size=(64, 128),
        num_attention_heads=(8, 4), attention_bias=BOTH, use_parallel_residual=BOTH),
    "dots1": dict(BIASED, **DEEP, sliding_window=(4, None), max_window_layers=(62, 2, 0)),
    "minimax_m2": dict(DENSE, **HEADS, **EXPERTS, rotary_dim=(8, 4)),
    "gpt_oss": dict(BIASED, **HEADS, **EXPERTS, **WINDOW),
    "llama4_text": dict(
        BIASED, **HEADS, **EXPERTS, **ROPE_LAYERS, intermediate_size_mlp=(80, 112),
        interleave_moe_layer_step=(1, 2, 3),
        attention_chunk_size=(8, 4, None), use_qk_norm=BOTH, moe_layers=(None, [0], [1, 2]),
    ),  # fmt: skip
    "ernie4_5_moe": dict(
        DENSE, moe_intermediate_size=(24, 40), moe_k=(2, 1), moe_num_experts=(8, 4),
        moe_num_shared_experts=(2, 0, 1),
        moe_layer_start_index=(1, 0, 2), moe_layer_end_index=(-1, 2), moe_layer_interval=(1, 2),
    ),  # fmt: skip
    "hunyuan_v1_moe": dict(BIASED, **HEADS, num_experts=(8, 4), moe_topk=(2, 1, [2] * 12)),
    "olmoe": dict(BIASED, num_experts=(8, 4), num_experts_per_tok=(2, 1), norm_topk_prob=BOTH),
    "phimoe": dict(BIASED, **EXPERTS, lm_head_bias=BOTH, sliding_window=(None, 8)),
    "granitemoe": dict(BIASED, **EXPERTS, **FACTORS),
    "granitemoeshared": dict(BIASED, **EXPERTS, **FACTORS, shared_intermediate_size=(20, 32, 0)),
    "granitemoehybrid": dict(
        BIASED, **FACTORS, num_local_experts=(0, 4), num_experts_per_tok=(2, 1),
        shared_intermediate_size=(20, 32),
        num_hidden_layers=(4,), mamba_n_heads=(8,), layer_types=(["attention"] * 4,),
    ),  # fmt: skip
    "dbrx": dict(
        vocab_size=(61, 97), d_model=(64, 96), n_layers=(4, 2), n_heads=(8, 4), max_seq_len=(32,),
        attn_config=({"kv_n_heads": 2, "clip_qkv": 8, "rope_theta": 500000.0},
                     {"kv_n_heads": 4, "rope_theta": 10000.0}),
        ffn_config=({"ffn_hidden_size": 48, "moe_num_experts": 8, "moe_top_k": 2},
                    {"ffn_hidden_size": 80, "moe_num_experts": 4, "moe_top_k": 1}),
    ),  # fmt: skip
    "deepseek_v2": dict(DENSE, num_key_value_heads=(8,), num_attention_heads=(8,), **DEEP, **LATENT,
                        topk_method=("greedy", "group_limited_greedy")),
}


def draw(family, chance):
    options = OPTIONS[family]
    keys = {key: values[0] for key, values in options.items()}
    for key in chance.sample(sorted(options), chance.randint(1, min(6, len(options)))):
        keys[key] = chance.choice(options[key])
    return keys


def windows_of(config):
    """By the configuration's kinds of layers; 0: all keys."""
    window = getattr(config, "sliding_window", None) or 0
    chunk = getattr(config, "attention_chunk_size", None) or 0
    kinds = getattr(config, "layer_types", None)
    if kinds is None:
        return [window if config.model_type in ("ministral3", "phimoe") else 0] * config.num_hidden_layers
    return [{"sliding_attention": window, "chunked_attention": chunk}.get(kind, 0) for kind in kinds]


def facts_of(family, keys):
    given = json.loads(json.dumps(keys))
    tokens = dict(bos_token_id=None, eos_token_id=None, pad_token_id=None)
    if family == "dbrx":
        given["rope_parameters"] = {"rope_theta": 10000.0, "rope_type": "default"}
    config = CONFIG_MAPPING[family].from_dict({**tokens, **given})
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    biases = sum(b.numel() for n, b in model.named_buffers() if n.endswith("e_score_correction_bias"))
    facts = {"parameters": sum(p.numel() for p in model.parameters()) + biases}
    if family not in ("qwen2_moe", "qwen3_moe"):  # draw_model_files.py has theirs
        facts["windows"] = windows_of(config)
    return facts


def main():
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    files = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    out = [json.dumps({"source": f"the model classes of transformers {transformers.__version__}, made by "
                                 f"draw_counts.py"})]
    for family in OPTIONS:
        chance = random.Random(family)
        drawn = refused = 0
        last = ""
        while drawn < files and refused < 20 * files:
            keys = draw(family, chance)
            try:
                facts = facts_of(family, keys)
            except Exception as error:  # any exception marks a file that transformers refuses
                last = f"{type(error).__name__}: {str(error).splitlines()[0][:120] if str(error) else ''}"
                refused += 1
                continue
            out.append(json.dumps({"family": family, "file": keys, **facts}))
            drawn += 1
        print(f"{family}: {drawn} files, transformers refuses {refused} {last}", flush=True)
    pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else OUT).write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
