"""Makes the golden files of the model families: losses of ten AdamW steps, and the first gradients.

    python make_families.py [FOLDER [NAME ...]]        needs torch, transformers, safetensors, numpy

For every model FOLDER/families/<name> gets the files of make_golden.py; expected.json also has the losses of
ten steps of torch.optim.AdamW. baichuan and chatglm have no class in transformers. Their checkpoints are
those of models that compute the same, under the names and in the layouts of the published code. Baichuan-13B
(Alibi), the output layer of Baichuan 2 and the first GLM models are written out here, from the published
definitions.
"""

import json
import math
import pathlib
import sys
import types

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

import torch
import transformers
from make_golden import SAMPLES, SEQ, loss_of, make, randomise
from safetensors.torch import load_file, save_file

LR = 1e-3
STEPS = 10
DECAY = 0.01

SMALL = dict(vocab_size=61, hidden_size=16, num_hidden_layers=2, num_attention_heads=4,
             max_position_embeddings=32)
WIDER = {**SMALL, "hidden_size": 32}  # whose heads are hidden / heads, and rotated in part
GPT = dict(vocab_size=61, n_embd=16, n_layer=2, n_head=4, n_positions=24, bos_token_id=None,
           eos_token_id=None)
NO_DROPOUT = dict(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
FALCON = {**SMALL, "hidden_dropout": 0.0, "attention_dropout": 0.0, "ffn_hidden_size": 24}
NO_TOKENS = dict(pad_token_id=None, bos_token_id=None, eos_token_id=None)
PARTIAL = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}

MODELS = {
    # Norms of queries and keys, heads wider than hidden / heads.
    "qwen3": transformers.Qwen3Config(
        **SMALL, intermediate_size=24, num_key_value_heads=2, head_dim=8, tie_word_embeddings=True
    ),
    # One key/value head.
    "gpt_bigcode": transformers.GPTBigCodeConfig(**GPT, **NO_DROPOUT, multi_query=True, n_inner=24),
    "starcoder2": transformers.Starcoder2Config(
        **SMALL,
        intermediate_size=24,
        num_key_value_heads=2,
        sliding_window=5,
        residual_dropout=0,
        embedding_dropout=0,
        attention_dropout=0,
        bos_token_id=None,
        eos_token_id=None,
    ),
    # ALiBi with a head count that is no power of two, a norm after the embedding, interleaved queries, keys
    # and values.
    "bloom": transformers.BloomConfig(
        vocab_size=61, hidden_size=24, n_layer=2, n_head=6, hidden_dropout=0, attention_dropout=0
    ),
    # ALiBi as falcon scales it, sequential, biases.
    "falcon_rw": transformers.FalconConfig(
        **FALCON, alibi=True, bias=True, multi_query=False, parallel_attn=False,
        new_decoder_architecture=False
    ),
    # Attention and MLP side by side, one norm, one key/value head.
    "falcon_7b": transformers.FalconConfig(
        **FALCON, alibi=False, bias=False, multi_query=True, parallel_attn=True,
        new_decoder_architecture=False
    ),
    # The same with two norms and groups.
    "falcon_40b": transformers.FalconConfig(**FALCON, alibi=False, bias=False, num_kv_heads=2,
                                            new_decoder_architecture=True),
    # ReLU, learned positions with an offset.
    "opt": transformers.OPTConfig(**SMALL, ffn_dim=24, word_embed_proj_dim=16, dropout=0, attention_dropout=0,
                                  pad_token_id=None),
    # OPT's class without linear biases, exact GELU.
    "opt_galactica": transformers.OPTConfig(
        **SMALL,
        ffn_dim=24,
        word_embed_proj_dim=16,
        dropout=0,
        attention_dropout=0,
        pad_token_id=None,
        enable_bias=False,
        activation_function="gelu",
    ),
    # Squared ReLU, half of every head rotated, norms stored less one.
    "nemotron": transformers.NemotronConfig(
        **SMALL, intermediate_size=24, num_key_value_heads=2, head_dim=8, partial_rotary_factor=0.5,
        rope_parameters=PARTIAL
    ),
    # Scaled embeddings, GeGLU, norms stored less one.
    "gemma": transformers.GemmaConfig(
        **SMALL, intermediate_size=24, num_key_value_heads=1, head_dim=8, pad_token_id=None
    ),
    # Half of every head rotated, in pairs of neighbours, gate and up in one tensor, biases on q, k, v.
    "glm": transformers.GlmConfig(
        **SMALL,
        intermediate_size=24,
        num_key_value_heads=2,
        head_dim=8,
        pad_token_id=None,
        rope_parameters=PARTIAL,
    ),
    # Attention and MLP side by side with one norm, biases everywhere, the output layer's too.
    "phi": transformers.PhiConfig(**WIDER, intermediate_size=24, rope_parameters=PARTIAL),
    # Queries, keys and values in one tensor, gate and up in another.
    "phi3": transformers.Phi3Config(
        **SMALL, intermediate_size=24, num_key_value_heads=2, sliding_window=5, pad_token_id=None
    ),
    # Experts, a token's weights normalised.
    "mixtral": transformers.MixtralConfig(
        **SMALL,
        intermediate_size=12,
        num_key_value_heads=2,
        num_local_experts=4,
        num_experts_per_tok=2,
        sliding_window=None,
        tie_word_embeddings=False,
    ),
    # Experts, some without a token of a micro-batch, weights not normalised.
    "qwen3_moe": transformers.Qwen3MoeConfig(
        **SMALL,
        intermediate_size=24,
        moe_intermediate_size=8,
        num_key_value_heads=2,
        head_dim=8,
        num_experts=12,
        num_experts_per_tok=3,
        norm_topk_prob=False,
        tie_word_embeddings=False,
    ),
    # A shared expert besides.
    "qwen2_moe": transformers.Qwen2MoeConfig(
        **SMALL,
        intermediate_size=24,
        moe_intermediate_size=8,
        shared_expert_intermediate_size=20,
        num_key_value_heads=2,
        num_experts=6,
        num_experts_per_tok=2,
        norm_topk_prob=False,
        tie_word_embeddings=False,
    ),
    # The first layer dense; groups of experts, scores with a bias; half of every head rotated, norms of
    # queries and keys.
    "glm4_moe": transformers.Glm4MoeConfig(
        **{**SMALL, "num_hidden_layers": 3},
        intermediate_size=24,
        moe_intermediate_size=8,
        num_key_value_heads=2,
        head_dim=8,
        n_routed_experts=8,
        n_shared_experts=1,
        num_experts_per_tok=3,
        n_group=4,
        topk_group=2,
        first_k_dense_replace=1,
        routed_scaling_factor=1.5,
        norm_topk_prob=True,
        attention_bias=True,
        use_qk_norm=True,
        tie_word_embeddings=False,
        rope_parameters=PARTIAL,
    ),
    # Latent attention besides, values narrower than queries and keys, two shared experts.
    "deepseek_v3": transformers.DeepseekV3Config(
        **{**SMALL, "num_hidden_layers": 3},
        intermediate_size=24,
        moe_intermediate_size=8,
        num_key_value_heads=4,
        q_lora_rank=12,
        kv_lora_rank=8,
        qk_nope_head_dim=6,
        qk_rope_head_dim=4,
        v_head_dim=7,
        n_routed_experts=8,
        n_shared_experts=2,
        num_experts_per_tok=3,
        n_group=4,
        topk_group=2,
        first_k_dense_replace=1,
        routed_scaling_factor=2.5,
        norm_topk_prob=True,
        attention_bias=False,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
    ),
    # A window in every layer: max_window_layers has no meaning there.
    "qwen3_moe_window": transformers.Qwen3MoeConfig(
        **SMALL,
        intermediate_size=24,
        moe_intermediate_size=8,
        num_key_value_heads=2,
        num_experts=6,
        num_experts_per_tok=2,
        use_sliding_window=True,
        sliding_window=4,
        max_window_layers=28,
    ),
    # A window in every other layer.
    "qwen2_moe_window": transformers.Qwen2MoeConfig(
        **SMALL,
        intermediate_size=24,
        moe_intermediate_size=8,
        shared_expert_intermediate_size=20,
        num_key_value_heads=2,
        num_experts=6,
        num_experts_per_tok=2,
        use_sliding_window=True,
        sliding_window=4,
    ),
    # Squared ReLU without a gate, biases of the MLP alone.
    "arcee": transformers.ArceeConfig(
        **SMALL, intermediate_size=24, num_key_value_heads=2, head_dim=8, mlp_bias=True, **NO_TOKENS
    ),
    # Biases of attention alone, heads wider than hidden / heads.
    "seed_oss": transformers.SeedOssConfig(
        **SMALL,
        intermediate_size=24,
        num_key_value_heads=2,
        head_dim=8,
        attention_bias=True,
        attention_out_bias=True,
        residual_dropout=0,
        attention_dropout=0,
        **NO_TOKENS,
    ),
    # A window in the first layer.
    "ministral": transformers.MinistralConfig(
        **SMALL,
        intermediate_size=24,
        num_key_value_heads=2,
        head_dim=8,
        sliding_window=5,
        layer_types=["sliding_attention", "full_attention"],
        **NO_TOKENS,
    ),
    # Rotated in pairs of neighbours, biases everywhere, tied.
    "ernie4_5": transformers.Ernie4_5Config(
        **SMALL, intermediate_size=24, num_key_value_heads=2, head_dim=8, use_bias=True, **NO_TOKENS
    ),
    # LayerNorm and a gate, a quarter of every head rotated, biases on q, k, v.
    "stablelm": transformers.StableLmConfig(
        **WIDER,
        intermediate_size=24,
        num_key_value_heads=2,
        use_qkv_bias=True,
        rope_parameters={**PARTIAL, "partial_rotary_factor": 0.25},
        **NO_TOKENS,
    ),
    # Attention and MLP side by side with a norm each, interleaved queries, keys and values.
    "gpt_neox": transformers.GPTNeoXConfig(
        **WIDER,
        intermediate_size=24,
        rope_parameters={**PARTIAL, "partial_rotary_factor": 0.25},
        **NO_TOKENS,
    ),
    # DeepSeek's experts behind plain attention with norms of queries and keys, the last layer with a window.
    "dots1": transformers.Dots1Config(
        **{**SMALL, "num_hidden_layers": 3},
        intermediate_size=24,
        moe_intermediate_size=8,
        num_key_value_heads=2,
        head_dim=8,
        n_routed_experts=8,
        n_shared_experts=2,
        num_experts_per_tok=3,
        n_group=1,
        topk_group=1,
        first_k_dense_replace=1,
        routed_scaling_factor=2.0,
        norm_topk_prob=True,
        sliding_window=5,
        max_window_layers=2,
        **NO_TOKENS,
    ),
    # Every other layer without rotary embeddings, and with a window.
    "smollm3": transformers.SmolLM3Config(
        **SMALL,
        intermediate_size=24,
        num_key_value_heads=2,
        no_rope_layer_interval=2,
        use_sliding_window=True,
        sliding_window=5,
        **NO_TOKENS,
    ),
    # Multipliers of embeddings, scores, residuals and logits.
    "granite": transformers.GraniteConfig(
        **SMALL,
        intermediate_size=24,
        num_key_value_heads=2,
        embedding_multiplier=3.0,
        attention_multiplier=0.2,
        residual_multiplier=0.4,
        logits_scaling=2.5,
        tie_word_embeddings=True,
        **NO_TOKENS,
    ),
    # Norms of rotated queries and keys.
    "hunyuan_v1_dense": transformers.HunYuanDenseV1Config(
        **SMALL, intermediate_size=24, num_key_value_heads=2, head_dim=8, **NO_TOKENS
    ),
    # The same with experts and an ungated shared one.
    "hunyuan_v1_moe": transformers.HunYuanMoEV1Config(
        **SMALL, intermediate_size=12, num_key_value_heads=2, head_dim=8, num_experts=6, moe_topk=2,
        **NO_TOKENS
    ),
    # The first layer dense; softmax scores with a bias, an ungated shared expert.
    "ernie4_5_moe": transformers.Ernie4_5_MoeConfig(
        **{**SMALL, "num_hidden_layers": 3},
        intermediate_size=24,
        moe_intermediate_size=8,
        num_key_value_heads=2,
        moe_num_experts=8,
        moe_k=3,
        moe_num_shared_experts=2,
        moe_layer_start_index=1,
        tie_word_embeddings=False,
        **NO_TOKENS,
    ),
    # The first layer dense, no bias of a router.
    "qwen2_moe_dense": transformers.Qwen2MoeConfig(
        **SMALL,
        intermediate_size=24,
        moe_intermediate_size=8,
        shared_expert_intermediate_size=20,
        num_key_value_heads=2,
        num_experts=6,
        num_experts_per_tok=2,
        mlp_only_layers=[0],
    ),
    # Norms of attention's and the MLP's results in place of those of their inputs; of all query and key heads
    # together.
    "olmo2": transformers.Olmo2Config(**SMALL, intermediate_size=24, num_key_value_heads=2, **NO_TOKENS),
    # The same with a window in every layer but the last.
    "olmo3": transformers.Olmo3Config(
        **SMALL,
        intermediate_size=24,
        num_key_value_heads=2,
        sliding_window=5,
        layer_types=["sliding_attention", "full_attention"],
        **NO_TOKENS,
    ),
    # Norms of results and of every query and key head; no rotary embeddings where there is no window.
    "exaone4": transformers.Exaone4Config(
        **{**SMALL, "num_hidden_layers": 4},
        intermediate_size=24,
        num_key_value_heads=2,
        head_dim=8,
        sliding_window=5,
        sliding_window_pattern=4,
        **NO_TOKENS,
    ),
    # Norms of inputs and results; half of every head rotated in pairs of neighbours, gate and up in one
    # tensor, biases on q, k, v.
    "glm4": transformers.Glm4Config(
        **SMALL,
        intermediate_size=24,
        num_key_value_heads=2,
        head_dim=8,
        attention_bias=True,
        rope_parameters=PARTIAL,
        **NO_TOKENS,
    ),
    # Norms of inputs and results, stored less one; scores with a scale of their own, a window in the first
    # layer.
    "gemma2": transformers.Gemma2Config(
        **SMALL,
        intermediate_size=24,
        num_key_value_heads=2,
        head_dim=8,
        query_pre_attn_scalar=24,
        sliding_window=5,
        attn_logit_softcapping=None,
        final_logit_softcapping=None,
        **NO_TOKENS,
    ),
    # Experts behind attention with norms of all query and key heads together.
    "olmoe": transformers.OlmoeConfig(
        **SMALL, intermediate_size=12, num_key_value_heads=2, num_experts=6, num_experts_per_tok=2,
        **NO_TOKENS
    ),
    # The same norms; half of every head rotated, sigmoid scores with a bias.
    "minimax_m2": transformers.MiniMaxM2Config(
        **SMALL,
        intermediate_size=12,
        num_key_value_heads=2,
        head_dim=8,
        num_local_experts=6,
        num_experts_per_tok=2,
        rope_parameters=PARTIAL,
        **NO_TOKENS,
    ),
}


# Expert names in checkpoints, where transformers has a layer's experts in one tensor: the feed-forward layer,
# an expert's gate, up and down.
EXPERTS = {"mixtral": ("block_sparse_moe", "w1", "w3", "w2"),
           "qwen3_moe": ("mlp", "gate_proj", "up_proj", "down_proj")}
for mixture in ("qwen2_moe", "glm4_moe", "deepseek_v3", "qwen3_moe_window", "qwen2_moe_window", "dots1",
                "hunyuan_v1_moe", "ernie4_5_moe", "qwen2_moe_dense", "olmoe"):
    EXPERTS[mixture] = EXPERTS["qwen3_moe"]
EXPERTS["minimax_m2"] = EXPERTS["mixtral"]


# Names of published checkpoints, where a class of transformers has others.
PUBLISHED = {"gpt_neox": {"lm_head.weight": "embed_out.weight"}}


def split_experts(file, layer, gate, up, down):
    """Tensors of the experts of a layer, (E, 2F, h) and (E, h, F), one by one."""
    split = {}
    for name, tensor in load_file(file).items():
        stem = name.split(".mlp.")[0] + f".{layer}."
        if ".experts.gate_up_proj" in name:
            for i, expert in enumerate(tensor):
                first, second = expert.chunk(2)
                split[f"{stem}experts.{i}.{gate}.weight"] = first.contiguous()
                split[f"{stem}experts.{i}.{up}.weight"] = second.contiguous()
        elif ".experts.down_proj" in name:
            for i, expert in enumerate(tensor):
                split[f"{stem}experts.{i}.{down}.weight"] = expert.contiguous()
        else:
            split[name.replace(".mlp.gate.", f".{layer}.gate.")] = tensor
    save_file(split, file)


class AlibiAttention(torch.nn.Module):
    """Attention of Baichuan-13B: no positions but a slope per head times the distance."""

    def __init__(self, layer, heads):
        super().__init__()
        self.heads = heads
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(self, name, getattr(layer, name))

    def slopes(self):
        power = 2 ** math.floor(math.log2(self.heads))
        first = [2 ** (-8 * (i + 1) / power) for i in range(power)]
        rest = [2 ** (-4 * (2 * i + 1) / power) for i in range(self.heads - power)]
        return torch.tensor(first + rest)

    def forward(self, hidden_states, **_):
        b, s, h = hidden_states.shape
        split = lambda x: x.view(b, s, self.heads, h // self.heads).transpose(1, 2)
        q, k, v = (split(proj(hidden_states)) for proj in (self.q_proj, self.k_proj, self.v_proj))
        at = torch.arange(s)
        scores = q @ k.transpose(2, 3) / math.sqrt(h // self.heads)
        scores = scores + self.slopes()[:, None, None] * (at[None, :] - at[:, None])
        scores = scores.masked_fill(at[None, :] > at[:, None], float("-inf"))
        return self.o_proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, s, h)), None


def baichuan_13b(config):
    model = transformers.LlamaForCausalLM(config)
    for layer in model.model.layers:
        layer.self_attn = AlibiAttention(layer.self_attn, config.num_attention_heads)
    return model


class NormedHead(torch.nn.Module):
    """The output layer of Baichuan 2: its rows have length 1."""

    def __init__(self, weight):
        super().__init__()
        self.weight = weight

    def forward(self, hidden):
        return torch.nn.functional.linear(hidden, torch.nn.functional.normalize(self.weight))


def baichuan2(config):
    model = transformers.LlamaForCausalLM(config)
    model.lm_head = NormedHead(model.lm_head.weight)
    return model


class FirstGlm(torch.nn.Module):
    """chatglm-6b, glm-10b and glm-130b from their published definitions (THUDM). They have a prefix whose
    tokens see each other, two positions for every token, GEGLU as x1 * gelu(x2), and a residual that is the
    norm's output times sqrt(2 layers)."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        c = config
        self.split = c.hidden_size // c.num_attention_heads
        norm = lambda: torch.nn.LayerNorm(c.hidden_size, eps=1e-5)
        group = lambda **modules: torch.nn.ModuleDict(modules)
        layers = torch.nn.ModuleList(
            group(
                input_layernorm=norm(),
                attention=group(
                    query_key_value=torch.nn.Linear(c.hidden_size, 3 * c.hidden_size),
                    dense=torch.nn.Linear(c.hidden_size, c.hidden_size),
                ),
                post_attention_layernorm=norm(),
                mlp=group(
                    dense_h_to_4h=torch.nn.Linear(c.hidden_size, (2 if c.geglu else 1) * c.ffn),
                    dense_4h_to_h=torch.nn.Linear(c.ffn, c.hidden_size),
                ),
            )
            for _ in range(c.num_layers)
        )
        words = torch.nn.Embedding(c.vocab_size, c.hidden_size)
        if c.learned:
            table = lambda: torch.nn.Embedding(c.positions, c.hidden_size)
            inner = group(
                position_embeddings=table(), block_position_embeddings=table(), layers=layers,
                final_layernorm=norm()
            )
            self.glm = group(word_embeddings=words, transformer=inner)
        else:
            inner = group(word_embeddings=words, layers=layers, final_layernorm=norm())
            self.transformer = inner
        self.parts = lambda: (words, inner)
        if not c.tied:
            self.lm_head = torch.nn.Linear(c.hidden_size, c.vocab_size, bias=False)

    def positions(self, s):
        p = self.config.prefix
        at = torch.arange(s)
        return torch.where(at < p, at, max(p - 1, 0)), (at - p + 1).clamp(min=0)

    def turn(self, x, at):
        d = x.shape[-1]
        angles = at[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)
        cos, sin = torch.cat([angles.cos()] * 2, -1), torch.cat([angles.sin()] * 2, -1)
        return x * cos + torch.cat([-x[..., d // 2 :], x[..., : d // 2]], -1) * sin

    def rotate(self, x):
        c = self.config
        at, block = self.positions(x.shape[-2])
        if c.learned:
            return x
        if not c.two_positions:
            return self.turn(x, torch.arange(x.shape[-2]))
        first, second = x.chunk(2, -1)
        return torch.cat([self.turn(first, at), self.turn(second, block)], -1)

    def attend(self, layer, x):
        b, s, h = x.shape
        c = self.config
        mixed = layer["query_key_value"](x)
        if c.per_head:  # of every head its query, key and value
            q, k, v = mixed.view(b, s, c.num_attention_heads, 3 * self.split).transpose(1, 2).chunk(3, -1)
        else:
            q, k, v = (t.view(b, s, c.num_attention_heads, self.split).transpose(1, 2)
                       for t in mixed.chunk(3, -1))
        scores = self.rotate(q) @ self.rotate(k).transpose(2, 3) / math.sqrt(self.split)
        at = torch.arange(s)
        hidden = (at[None, :] > at[:, None]) & (at[None, :] >= c.prefix)
        scores = scores.masked_fill(hidden, float("-inf"))
        return layer["dense"]((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, s, h))

    def feed_forward(self, layer, x):
        gelu = lambda y: torch.nn.functional.gelu(y, approximate="tanh")
        x = layer["dense_h_to_4h"](x)
        if self.config.geglu:
            x1, x2 = x.chunk(2, -1)
            return layer["dense_4h_to_h"](x1 * gelu(x2))
        return layer["dense_4h_to_h"](gelu(x))

    def forward(self, input_ids, **_):
        c = self.config
        words, inner = self.parts()
        x = words(input_ids)
        if c.learned:
            at, block = self.positions(input_ids.shape[1])
            x = x + inner["position_embeddings"](at) + inner["block_position_embeddings"](block)
        factor = math.sqrt(2 * c.num_layers)
        for layer in inner["layers"]:
            n = layer["input_layernorm"](x)
            x = (factor * n if c.normed else x) + self.attend(layer["attention"], n)
            n = layer["post_attention_layernorm"](x)
            x = (factor * n if c.normed else x) + self.feed_forward(layer["mlp"], n)
        x = inner["final_layernorm"](x)
        logits = torch.nn.functional.linear(x, words.weight if c.tied else self.lm_head.weight)
        return types.SimpleNamespace(logits=logits)

    def save_pretrained(self, folder):
        save_file({name: p.detach().contiguous() for name, p in self.named_parameters()},
                  folder / "model.safetensors")


def first_glm(**switches):
    return types.SimpleNamespace(
        vocab_size=61, hidden_size=32, num_layers=2, num_attention_heads=4, ffn=24, positions=25, prefix=5,
        **switches
    )


def pack(prefix, parts, packed):
    """Renames tensors, and puts those that `packed` names into one, in order."""

    def convert(tensors):
        tensors = dict(tensors)
        for name in [n for n in tensors if n.endswith(parts[0] + ".weight")
                     or n.endswith(parts[0] + ".bias")]:
            kind = name.rsplit(".", 1)[1]
            stem = name[: -len(parts[0] + "." + kind)]
            pieces = [tensors.pop(f"{stem}{part}.{kind}") for part in parts]
            tensors[f"{stem}{packed}.{kind}"] = torch.cat(pieces)
        return {prefix(name): tensor.contiguous() for name, tensor in tensors.items()}

    return convert


def chatglm_name(name):
    for old, new in (
        ("model.embed_tokens", "transformer.embedding.word_embeddings"),
        ("model.layers", "transformer.encoder.layers"),
        ("model.norm", "transformer.encoder.final_layernorm"),
        ("lm_head", "transformer.output_layer"),
        ("self_attn.o_proj", "self_attention.dense"),
        ("self_attn", "self_attention"),
        ("mlp.gate_up_proj", "mlp.dense_h_to_4h"),
        ("mlp.down_proj", "mlp.dense_4h_to_h"),
    ):
        name = name.replace(old, new)
    return name


QKV = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
BAICHUAN = transformers.LlamaConfig(**SMALL, intermediate_size=24, tie_word_embeddings=False)
BAICHUAN_13B = transformers.LlamaConfig(
    **{**SMALL, "hidden_size": 24, "num_attention_heads": 6}, intermediate_size=24, tie_word_embeddings=False
)
FIRST_GLM = dict(
    vocab_size=61,
    hidden_size=32,
    num_layers=2,
    num_attention_heads=4,
    inner_hidden_size=24,
    max_sequence_length=24,
    layernorm_epsilon=1e-5,
)
# name: (configuration, model, config.json, conversion of tensors)
CONVERTED = {
    "baichuan": (
        BAICHUAN,
        transformers.LlamaForCausalLM,
        dict(
            model_type="baichuan",
            vocab_size=61,
            hidden_size=16,
            intermediate_size=24,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=32,
            rms_norm_eps=BAICHUAN.rms_norm_eps,
            hidden_act="silu",
        ),
        pack(lambda name: name, QKV, "self_attn.W_pack"),
    ),
    "baichuan_13b": (
        BAICHUAN_13B,
        baichuan_13b,
        dict(
            model_type="baichuan",
            vocab_size=61,
            hidden_size=24,
            intermediate_size=24,
            num_hidden_layers=2,
            num_attention_heads=6,
            model_max_length=32,
            rms_norm_eps=BAICHUAN_13B.rms_norm_eps,
            hidden_act="silu",
        ),
        pack(lambda name: name, QKV, "self_attn.W_pack"),
    ),
    "chatglm": (
        MODELS["glm"],
        transformers.GlmForCausalLM,
        dict(
            model_type="chatglm",
            padded_vocab_size=61,
            hidden_size=16,
            ffn_hidden_size=24,
            num_layers=2,
            num_attention_heads=4,
            multi_query_attention=True,
            multi_query_group_num=2,
            kv_channels=8,
            seq_length=32,
            layernorm_epsilon=MODELS["glm"].rms_norm_eps,
            rmsnorm=True,
            add_qkv_bias=True,
            add_bias_linear=False,
            post_layer_norm=True,
            apply_residual_connection_post_layernorm=False,
            tie_word_embeddings=False,
        ),
        pack(chatglm_name, QKV, "self_attention.query_key_value".replace("self_attention", "self_attn")),
    ),
    "baichuan2": (
        BAICHUAN,
        baichuan2,
        dict(
            model_type="baichuan",
            vocab_size=61,
            hidden_size=16,
            intermediate_size=24,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=32,
            rms_norm_eps=BAICHUAN.rms_norm_eps,
            hidden_act="silu",
            normalized_output=True,
        ),
        pack(lambda name: name, QKV, "self_attn.W_pack"),
    ),
    "chatglm_6b": (
        first_glm(learned=False, two_positions=True, normed=True, geglu=False, per_head=True, tied=False),
        FirstGlm,
        dict(FIRST_GLM, model_type="chatglm", position_encoding_2d=True),
        dict,
    ),
    "glm_10b": (
        first_glm(learned=True, two_positions=True, normed=False, geglu=False, per_head=False, tied=True),
        FirstGlm,
        dict(FIRST_GLM, model_type="glm", block_position_encoding=True, tie_word_embeddings=True),
        dict,
    ),
    "glm_130b": (
        first_glm(learned=False, two_positions=False, normed=True, geglu=True, per_head=False, tied=True),
        FirstGlm,
        dict(FIRST_GLM, model_type="glm_130b", tie_word_embeddings=True),
        dict,
    ),
}


def samples_of(tokens, step):
    """The ids of a step as one stream, as loss_of cuts it: plumbline continues in the file and wraps
    around."""
    first = step * SAMPLES * SEQ
    return tokens[(first + torch.arange(SAMPLES * SEQ + 1)) % len(tokens)]


def ten_steps(model, tokens):
    """Weight decay of matrices only, as Megatron-LM has it."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    groups = [dict(params=matrices, weight_decay=DECAY), dict(params=vectors, weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.95), eps=1e-8)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, samples_of(tokens, step))
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
    return losses


def extend(folder, name, config, build, seed, config_json=None, convert=None):
    """make(), then what it does not write."""
    folder = folder / "families" / name
    original = transformers.AutoModelForCausalLM.from_config
    transformers.AutoModelForCausalLM.from_config = lambda *_, **__: build(config)
    try:
        make(name, config, folder, seed)
    finally:
        transformers.AutoModelForCausalLM.from_config = original
    generator = torch.Generator().manual_seed(seed)
    model = build(config)
    model.eval()
    randomise(model, generator)
    tokens = torch.randint(config.vocab_size, (SAMPLES * SEQ + 1,), generator=generator, dtype=torch.int32)
    expected = json.loads((folder / "expected.json").read_text())
    expected["losses"] = ten_steps(model, tokens)
    (folder / "expected.json").write_text(json.dumps(expected, indent=2) + "\n")
    with (folder / "run.yaml").open("a") as run:
        run.write(f"learning_rate: {LR}\nweight_decay: {DECAY}\nclip_grad: 0\n")
        if any(key.endswith("e_score_correction_bias") for key in model.state_dict()):
            run.write("moe_router_bias_update_rate: 0\n")
        if getattr(config, "prefix", 0) > 0:
            run.write(f"prefix_length: {config.prefix}\n")
    if name in EXPERTS:
        split_experts(folder / "gradients.safetensors", *EXPERTS[name])
    if name in PUBLISHED:
        gradients = load_file(folder / "gradients.safetensors")
        renamed = {PUBLISHED[name].get(key, key): tensor for key, tensor in gradients.items()}
        save_file(renamed, folder / "gradients.safetensors")
    if config_json is None:
        return
    (folder / "config.json").write_text(json.dumps(config_json, indent=2) + "\n")
    for file in ("model.safetensors", "gradients.safetensors"):
        save_file(convert(load_file(folder / file)), folder / file)


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    wanted = sys.argv[2:]
    auto = transformers.AutoModelForCausalLM.from_config

    def plain(config):
        # transformers' eager attention of falcon (5.23) adds ALiBi twice, in the scores and in the mask.
        kind = "sdpa" if getattr(config, "alibi", False) else "eager"
        return auto(config, dtype=torch.float32, attn_implementation=kind)

    for seed, (name, config) in enumerate(MODELS.items(), start=100):
        if not wanted or name in wanted:
            extend(folder, name, config, plain, seed)
    for seed, (name, (config, build, config_json, convert)) in enumerate(CONVERTED.items(), start=200):
        def eager(config, build=build):
            config._attn_implementation = "eager"
            return build(config)

        if not wanted or name in wanted:
            extend(folder, name, config, eager, seed, config_json, convert)


if __name__ == "__main__":
    main()
