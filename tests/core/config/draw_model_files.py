"""Draws config.json files of every family and writes transformers' reading of them.

    python draw_model_files.py        needs torch and transformers

model_files.json has, for every family, a small file with the facts of its model. It also has changes of one
key (missing, null, odd, other) or of the keys about windows, each with the facts that differ, or with the
error. The facts come from a built model (shapes, attention weights, activations, rotary frequencies), not
from the file. core/config/families/defaults.json has the values that a configuration class assumes for
missing keys. drawn_models_test holds plumbline against both. Made again when transformers changes.
"""

import dataclasses
import itertools
import json
import pathlib
import sys
import warnings

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

import torch
import transformers

SEQ = 12
LARGEST = 1 << 18  # of any number in a configuration
CASES = pathlib.Path(__file__).parent / "model_files.json"
DEFAULTS = pathlib.Path(__file__).parents[3] / "core/config/families/defaults.json"
SMALL = dict(
    vocab_size=61,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=32,
)
GPT = dict(vocab_size=61, n_embd=32, n_layer=4, n_head=4, n_positions=32)
EXPERTS = dict(num_experts_per_tok=2, moe_intermediate_size=24)
DEEP = dict(**EXPERTS, n_routed_experts=16, n_group=4, topk_group=2, first_k_dense_replace=1)


def without(keys, *names):
    return {key: value for key, value in keys.items() if key not in names}

BASES = {
    "llama": SMALL,
    "mistral": SMALL,
    "qwen2": SMALL,
    "gpt2": GPT,
    "qwen3": SMALL,
    "mixtral": dict(**SMALL, num_local_experts=4, num_experts_per_tok=2),
    "qwen3_moe": dict(**SMALL, **EXPERTS, num_experts=4),
    "qwen2_moe": dict(**SMALL, **EXPERTS, num_experts=4, shared_expert_intermediate_size=20),
    "deepseek_v3": dict(
        SMALL, **DEEP, num_key_value_heads=4, q_lora_rank=20, kv_lora_rank=16, qk_nope_head_dim=10,
        qk_rope_head_dim=6, v_head_dim=12
    ),
    "glm4_moe": dict(**SMALL, **DEEP),
    "gpt_bigcode": GPT,
    "starcoder2": SMALL,
    "bloom": dict(vocab_size=61, hidden_size=32, n_layer=4, n_head=4),
    "falcon": without(SMALL, "intermediate_size", "num_key_value_heads", "max_position_embeddings"),
    "opt": dict(**without(SMALL, "intermediate_size", "num_key_value_heads"), ffn_dim=48),
    "nemotron": SMALL,
    "gemma": SMALL,
    "glm": SMALL,
    "phi": SMALL,
    "phi3": SMALL,
}
# Families that are predicted only; draw_counts.py has files of theirs.
PREDICTED = (
    "gemma2", "gemma3_text", "olmo", "olmo2", "olmo3", "exaone4", "glm4", "smollm3", "seed_oss", "apertus",
    "arcee", "granite",
    "cohere", "cohere2", "hunyuan_v1_dense", "ernie4_5", "ministral", "ministral3", "minicpm3", "stablelm",
    "gpt_neox", "dots1",
    "minimax_m2", "gpt_oss", "llama4_text", "ernie4_5_moe", "hunyuan_v1_moe", "olmoe", "phimoe", "granitemoe",
    "granitemoeshared",
    "granitemoehybrid", "dbrx", "deepseek_v2",
)  # fmt: skip
OWN_SIZES = ("gemma3_text",)  # whose multimodal files leave the class's sizes out
# Sizes that a file must give, regardless of a class's defaults.
SIZES = (set(GPT) | set(SMALL) | set(EXPERTS)) | {
    "n_routed_experts", "num_experts", "num_local_experts", "shared_expert_intermediate_size", "q_lora_rank",
    "kv_lora_rank",
    "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "ffn_dim", "d_model", "n_heads", "n_layers",
    "max_seq_len",
}  # fmt: skip
# Ids of tokens are no part of the model, and those of a large vocabulary do not fit the small one.
TOKENS = dict(bos_token_id=None, eos_token_id=None, pad_token_id=None)
NO_KEYS = {
    "architectures", "attention_dropout", "attn_pdrop", "bos_token_id", "chunk_size_feed_forward", "dtype",
    "embd_pdrop",
    "embedding_dropout", "eos_token_id", "hidden_dropout", "id2label", "is_encoder_decoder", "label2id",
    "output_attentions",
    "output_hidden_states", "pad_token_id", "pretraining_tp", "problem_type", "resid_pdrop",
    "residual_dropout", "return_dict",
    "router_aux_loss_coef", "summary_activation", "summary_first_dropout", "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj", "use_cache", "dropout", "layerdrop", "num_mtp_layers", "slow_but_exact",
    "attention_softmax_in_fp32",
    "scale_attention_softmax_in_fp32", "reorder_and_upcast_attn", "transformers_version", "model_type",
    "_name_or_path",
    "original_max_position_embeddings", "qk_head_dim", "layer_types", "rope_parameters", "mlp_only_layers",
}  # fmt: skip
MORE_KEYS = ("hidden_activation", "rope_theta", "partial_rotary_factor", "n_embed", "n_inner", "scoring_func",
             "topk_method")
WINDOWED = ("llama", "mistral", "qwen2", "qwen3", "mixtral", "qwen3_moe", "qwen2_moe", "starcoder2", "phi3")
FEW_ACTIVATIONS = ("silu", "gelu", "gelu_pytorch_tanh", "relu")
ROPES = (
    {}, {"rope_theta": 1000.0}, {"rope_type": "default"}, {"rope_type": "x"}, {"type": "default"},
    {"rope_type": "default", "rope_theta": 500, "partial_rotary_factor": 0.5}, [], "x",
)  # fmt: skip
ACTIVATIONS = {
    "silu": torch.nn.functional.silu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "relu": torch.nn.functional.relu,
    "relu2": lambda x: torch.nn.functional.relu(x) ** 2,
}


def name_of(activation):
    x = torch.tensor([-1.5, -0.3, 0.7, 2.0])
    found = activation(x)
    names = [name for name, known in ACTIVATIONS.items() if torch.allclose(known(x), found, atol=1e-6)]
    assert len(names) == 1, names
    return names[0]


def only(values, what):
    distinct = sorted(set(values), key=str)
    assert len(distinct) <= 1, (what, distinct)
    return distinct[0] if distinct else None


def attribute(model, *names):
    """The value that all modules with one of these attributes have."""
    found = [getattr(m, n) for m in model.modules() for n in names
             if isinstance(getattr(m, n, None), (int, float, bool))]
    return only(found, names)


def windows_of(model):
    """Keys that the last query of every layer sees, 0: all of them."""
    tokens = torch.arange(SEQ)[None]
    seen = []
    for weights in model(input_ids=tokens, output_attentions=True, use_cache=False).attentions:
        assert bool((weights[0].triu(1) == 0).all()), "not causal"
        last = int((weights[0, :, -1] > 0).any(0).sum())
        seen.append(0 if last == SEQ else last)
    return seen


def rotary_of(model):
    for module in model.modules():
        if isinstance(getattr(module, "inv_freq", None), torch.Tensor):
            frequencies = module.inv_freq.double()
            rotated = 2 * len(frequencies)
            theta = float(frequencies[-1]) ** (-rotated / (rotated - 2)) if rotated > 2 else None
            return {"rotated": rotated, "rope_theta": None if theta is None else float(f"{theta:.4g}")}
    epsilons = [getattr(m, 'variance_epsilon', getattr(m, 'eps', None)) for m in norms]
    return {"rotated": None, "rope_theta": None}


def facts_of(config):
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    for parameter in model.parameters():  # of scores that leave every key a weight
        parameter.copy_(0.02 * torch.randn(parameter.shape))
    body = model.base_model
    body = getattr(body, "decoder", body)
    layers = getattr(body, "layers", None) or body.h
    tables = [m for m in body.modules() if isinstance(m, torch.nn.Embedding)]
    acts = [
        name_of(getattr(m, n))
        for m in layers.modules()
        for n in ("act_fn", "act", "activation_fn", "gelu_impl")
        if callable(getattr(m, n, None))
    ]
    norms = [m for m in layers[0].children() if "norm" in type(m).__name__.lower()]
    biases = sum(b.numel() for n, b in model.named_buffers() if n.endswith("e_score_correction_bias"))
    facts = {
        "parameters": sum(p.numel() for p in model.parameters()) + biases,
        "layers": len(layers),
        "vocab": model.get_input_embeddings().weight.shape[0],
        "hidden": model.get_input_embeddings().weight.shape[1],
        "heads": model(input_ids=torch.arange(2)[None], output_attentions=True,
                       use_cache=False).attentions[0].shape[1],
        "head_dim": attribute(layers, "qk_head_dim") or attribute(layers, "head_dim"),
        "tied": model.get_output_embeddings().weight is model.get_input_embeddings().weight,
        "activation": only(acts, "activation"),
        "epsilon": float(f"{only(epsilons, 'eps'):.4g}"),
        "windows": windows_of(model),
        "init": config.init_std if config.model_type == "opt" else config.initializer_range,
        "position_rows": tables[1].weight.shape[0] if len(tables) > 1 else 0,
        "output_bias": model.get_output_embeddings().bias is not None,
        "layer_norms": len(norms),
        "experts": attribute(layers, "num_experts"),
        "top_k": attribute(layers, "top_k"),
        "normalized": None if (found := attribute(layers, "norm_topk_prob")) is None else bool(found),
        "routed_scale": attribute(layers, "routed_scaling_factor"),
        "groups": attribute(layers, "num_group", "n_group"),
        "chosen_groups": attribute(layers, "topk_group"),
        "shared": next((p.shape[0] for n, p in layers.named_parameters() if "shared_expert" in n
                        and "gate_proj" in n), 0),
        "first_dense": sum(not any("expert" in n for n, _ in layer.named_parameters()) for layer in layers),
        **rotary_of(torch.nn.Module() if getattr(config, "alibi", False) else body),
    }
    if facts["experts"] is None:
        facts["first_dense"] = 0
    return facts


def grouped(cases):
    """Changes of the same keys with the same outcome as one: "keys", and "values" of each change."""
    groups = {}
    for case in cases:
        if "set" not in case:
            groups[json.dumps(case)] = case
            continue
        found = {key: value for key, value in case.items() if key != "set"}
        keys = list(case["set"])
        group = groups.setdefault(json.dumps([keys, found]), {"keys": keys, "values": [], **found})
        group["values"].append(list(case["set"].values()))
    return list(groups.values())


def outcome(family, keys):
    """(facts, None) or (None, why not); (None, None) for a model that is too large to be built."""
    try:
        given = json.loads(json.dumps(keys))
        defaults = {key: value for key, value in TOKENS.items() if key not in given}
        config = transformers.CONFIG_MAPPING[family].from_dict({**defaults, **given})
        if any(isinstance(value, int) and value > LARGEST for value in vars(config).values()):
            return None, None
        return facts_of(config), None
    except Exception as error:  # any exception of a class or a model marks a file that transformers refuses
        return None, type(error).__name__


def others(usual, known):
    """Values of a key besides the usual one: odd ones, and some that mean something else."""
    odd = ["x", [], -1, 0, 1.5, True]
    if not known:
        return [4, True]
    if isinstance(usual, bool):
        return [True, False, "true", 0, 1]
    if isinstance(usual, int):
        return [usual * 2, usual // 2, float(usual), *odd]
    if isinstance(usual, float):
        return [usual / 2, usual * 3, 1, *odd]
    if isinstance(usual, str):
        return ["silu", "swish", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "relu2", "x", [], 0]
    return [1, 2, 4, 16, False, 0.5, "gelu", "silu", *odd]


def changes_of(family, all_keys):
    base = BASES[family]
    for key in base:
        yield {}, [key]
    defaults = defaults_of(family)
    for key in sorted(all_keys | set(defaults) | set(base)):
        seen = []
        known = key in defaults or key in base or key in MORE_KEYS
        for value in [None, defaults.get(key), *others(base.get(key, defaults.get(key)), known)]:
            mark = json.dumps(value)
            if mark not in seen and not (key in base and mark == json.dumps(base[key])):
                seen.append(mark)
                yield {key: value}, []
    for names, values in ((("hidden_act", "hidden_activation"), FEW_ACTIVATIONS),
                          (("num_experts", "num_local_experts"), (4, 8))):
        if set(names) & set(defaults):
            yield from ((dict(zip(names, pair)), []) for pair in itertools.product(values, repeat=2))
    for kind, rope in itertools.product(("rope_scaling", "rope_parameters"), ROPES):
        yield {kind: rope}, []
        yield {kind: rope, "rope_theta": 7000.0}, []
    if family in WINDOWED:
        yield from ((change, []) for change in windows())


def windows():
    mixed = ["sliding_attention", "full_attention", "full_attention", "sliding_attention"]
    alike = [["full_attention"] * 4, ["sliding_attention"] * 4]
    for use, window, layers, kinds in itertools.product((True, False), (None, 4, 0), (0, 3, 28),
                                                        (None, mixed, *alike)):
        keys = dict(use_sliding_window=use, sliding_window=window, max_window_layers=layers)
        yield keys if kinds is None else {**keys, "layer_types": kinds}
    for keys in ({}, {"sliding_window": 4}, {"use_sliding_window": True, "sliding_window": 4}):
        for kinds in (mixed, ["full_attention"], ["chunked_attention"] * 4, [1, 2, 3, 4], [], None, "x"):
            yield {**keys, "layer_types": kinds}
        yield {**keys, "use_sliding_window": True}


def defaults_of(family):
    """The class's value where the file is silent; one that it works out of others is left out."""
    config = transformers.CONFIG_MAPPING[family]()
    found = {}
    for field in dataclasses.fields(transformers.CONFIG_MAPPING[family]):
        value = field.default
        if field.name not in NO_KEYS and (isinstance(value, (bool, int, float, str)) or value is None):
            found[field.name] = value
    if getattr(config, "rope_parameters", None):
        rope = config.rope_parameters.get("full_attention", config.rope_parameters)
        found["rope_theta"] = rope["rope_theta"]
        share = rope.get("partial_rotary_factor", 1)
        if share != 1:
            found["partial_rotary_factor"] = share
    return found


def main():
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    source = f"the configuration classes of transformers {transformers.__version__}"
    defaults = {
        family: without(defaults_of(family), *(() if family in OWN_SIZES else SIZES))
        for family in (*BASES, *PREDICTED)
    }
    lines = [f'    "{family}": {json.dumps(keys)}' for family, keys in defaults.items()]
    DEFAULTS.write_text('{\n  "source": "' + source + '",\n  "families": {\n' + ",\n".join(lines)
                        + "\n  }\n}\n")
    all_keys = {key for family in BASES for key in defaults_of(family)} | set(MORE_KEYS)
    out = [f'{{"source": "{source}, made by draw_model_files.py"}}']
    for family, base in BASES.items():
        facts, error = outcome(family, base)
        assert error is None, (family, error)
        out.append(json.dumps({"family": family, "base": base, "facts": facts}, separators=(",", ":")))
        cases = []
        refused = 0
        for change, dropped in changes_of(family, all_keys):
            keys = {key: value for key, value in {**base, **change}.items() if key not in dropped}
            found, error = outcome(family, keys)
            case = {"set": change} if change else {"drop": dropped}
            if found is not None:
                case["facts"] = {key: value for key, value in found.items() if value != facts[key]}
            elif error is None:
                continue
            else:
                case["error"] = error
                refused += 1
            cases.append(case)
        out += [json.dumps(case, separators=(",", ":")) for case in grouped(cases)]
        print(f"{family}: {len(cases)} files, transformers refuses {refused}", flush=True)
    CASES.write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
