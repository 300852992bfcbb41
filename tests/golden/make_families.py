"""Makes the golden files of the model families: losses of ten AdamW steps, and the first gradients.

    python make_families.py [FOLDER [NAME ...]]        needs torch, transformers, safetensors, numpy

For every model FOLDER/families/<name> gets what make_golden.py writes; expected.json also has the losses of ten steps of
torch.optim.AdamW. baichuan and chatglm have no class in transformers: their checkpoints are those of
models that compute the same, under the names and in the layouts that the published code has. Baichuan-13B is written out
here (Alibi), from the published definition.
"""

import json
import math
import pathlib
import sys

import torch
import transformers
from make_golden import SAMPLES, SEQ, loss_of, make, randomise
from safetensors.torch import load_file, save_file

LR = 1e-3
STEPS = 10
DECAY = 0.01

SMALL = dict(vocab_size=61, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=32)
GPT = dict(vocab_size=61, n_embd=32, n_layer=2, n_head=4, n_positions=24, bos_token_id=None, eos_token_id=None)
NO_DROPOUT = dict(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
FALCON = {**SMALL, "hidden_dropout": 0.0, "attention_dropout": 0.0, "ffn_hidden_size": 48}
PARTIAL = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}

MODELS = {
    # Norms of queries and keys, heads wider than hidden / heads.
    "qwen3": transformers.Qwen3Config(
        **SMALL, intermediate_size=48, num_key_value_heads=2, head_dim=16, tie_word_embeddings=True
    ),
    # One key/value head.
    "gpt_bigcode": transformers.GPTBigCodeConfig(**GPT, **NO_DROPOUT, multi_query=True, n_inner=48),
    "starcoder2": transformers.Starcoder2Config(
        **SMALL,
        intermediate_size=48,
        num_key_value_heads=2,
        sliding_window=5,
        residual_dropout=0,
        embedding_dropout=0,
        attention_dropout=0,
        bos_token_id=None,
        eos_token_id=None,
    ),
    # ALiBi with a head count that is no power of two, a norm after the embedding, interleaved queries, keys and values.
    "bloom": transformers.BloomConfig(
        vocab_size=61, hidden_size=36, n_layer=2, n_head=6, hidden_dropout=0, attention_dropout=0
    ),
    # ALiBi as falcon scales it, sequential, biases.
    "falcon_rw": transformers.FalconConfig(
        **FALCON, alibi=True, bias=True, multi_query=False, parallel_attn=False, new_decoder_architecture=False
    ),
    # Attention and MLP side by side, one norm, one key/value head.
    "falcon_7b": transformers.FalconConfig(
        **FALCON, alibi=False, bias=False, multi_query=True, parallel_attn=True, new_decoder_architecture=False
    ),
    # The same with two norms and groups.
    "falcon_40b": transformers.FalconConfig(**FALCON, alibi=False, bias=False, num_kv_heads=2, new_decoder_architecture=True),
    # ReLU, learned positions with an offset.
    "opt": transformers.OPTConfig(**SMALL, ffn_dim=48, word_embed_proj_dim=32, dropout=0, attention_dropout=0, pad_token_id=None),
    # OPT's class without linear biases, exact GELU.
    "opt_galactica": transformers.OPTConfig(
        **SMALL,
        ffn_dim=48,
        word_embed_proj_dim=32,
        dropout=0,
        attention_dropout=0,
        pad_token_id=None,
        enable_bias=False,
        activation_function="gelu",
    ),
    # Squared ReLU, half of every head rotated, norms stored less one.
    "nemotron": transformers.NemotronConfig(
        **SMALL, intermediate_size=48, num_key_value_heads=2, head_dim=8, partial_rotary_factor=0.5, rope_parameters=PARTIAL
    ),
    # Scaled embeddings, GeGLU, norms stored less one.
    "gemma": transformers.GemmaConfig(
        **SMALL, intermediate_size=48, num_key_value_heads=1, head_dim=16, pad_token_id=None
    ),
    # Half of every head rotated, in pairs of neighbours, gate and up in one tensor, biases on q, k, v.
    "glm": transformers.GlmConfig(
        **SMALL,
        intermediate_size=48,
        num_key_value_heads=2,
        head_dim=8,
        pad_token_id=None,
        rope_parameters=PARTIAL,
    ),
}


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
        q, k, v = split(self.q_proj(hidden_states)), split(self.k_proj(hidden_states)), split(self.v_proj(hidden_states))
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


def pack(prefix, parts, packed):
    """Renames tensors, and puts those that `packed` names into one, in order."""

    def convert(tensors):
        tensors = dict(tensors)
        for name in [n for n in tensors if n.endswith(parts[0] + ".weight") or n.endswith(parts[0] + ".bias")]:
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
BAICHUAN = transformers.LlamaConfig(**SMALL, intermediate_size=48, tie_word_embeddings=False)
BAICHUAN_13B = transformers.LlamaConfig(
    **{**SMALL, "hidden_size": 36, "num_attention_heads": 6}, intermediate_size=48, tie_word_embeddings=False
)
# name: (configuration, model, config.json, conversion of tensors)
CONVERTED = {
    "baichuan": (
        BAICHUAN,
        transformers.LlamaForCausalLM,
        dict(
            model_type="baichuan",
            vocab_size=61,
            hidden_size=32,
            intermediate_size=48,
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
            hidden_size=36,
            intermediate_size=48,
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
            hidden_size=32,
            ffn_hidden_size=48,
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
}


def samples_of(tokens, step):
    """The ids of a step as one stream, as loss_of cuts it: plumbline goes on in the file and around its end."""
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
