"""Compares our checkpoints with PyTorch's reading of them, and writes one with PyTorch.

Usage: torch_cross_check.py FOLDER

FOLDER/hf is a llama in Hugging Face's layout (bf16), FOLDER/megatron the same converted for two tensor and
two pipeline ranks. torch.load opens every rank's file with weights_only; the tensors are put together by
Megatron-LM's layout and compared. Then torch.save writes FOLDER/made, as Megatron would for two tensor ranks,
with the other entries of its checkpoints. Exit code 77 (skip) if torch cannot be imported.
"""

import argparse
import json
import pathlib
import struct
import sys
from collections import OrderedDict

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

try:
    import torch
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

folder = pathlib.Path(sys.argv[1])
config = json.loads((folder / "hf/config.json").read_text())
heads, groups, width = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
layers, vocabulary = config["num_hidden_layers"], config["vocab_size"]


def read_safetensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        assert entry["dtype"] == "BF16", entry
        tensors[name] = torch.frombuffer(bytearray(data[begin:end]),
                                         dtype=torch.bfloat16).view(entry["shape"])
    return tensors


def mix(query, key, value):
    """Queries of a group, its key, its value, group after group."""
    each = heads // groups * width
    rows = []
    for group in range(groups):
        rows += [query[group * each : (group + 1) * each], key[group * width : (group + 1) * width],
                 value[group * width : (group + 1) * width]]
    return torch.cat(rows)


def megatron_rank(hf, rank, size, first, count, is_first, is_last, padded):
    """The tensors of one tensor rank that has layers [first, first + count)."""
    part = lambda tensor, dim=0: tensor.chunk(size, dim)[rank].clone()
    pad = lambda table: torch.cat([table] + [table[-1:]] * (padded - vocabulary))
    state = OrderedDict()
    if is_first:
        state["embedding.word_embeddings.weight"] = part(pad(hf["model.embed_tokens.weight"]))
    for local in range(count):
        theirs, ours = f"model.layers.{first + local}.", f"decoder.layers.{local}."
        state[ours + "self_attention.linear_proj.weight"] = part(hf[theirs + "self_attn.o_proj.weight"], 1)
        state[ours + "self_attention.linear_qkv.layer_norm_weight"] = hf[theirs + "input_layernorm.weight"]
        state[ours + "self_attention.linear_qkv.weight"] = part(
            mix(*(hf[theirs + f"self_attn.{name}_proj.weight"] for name in "qkv")))
        state[ours + "mlp.linear_fc1.layer_norm_weight"] = hf[theirs + "post_attention_layernorm.weight"]
        state[ours + "mlp.linear_fc1.weight"] = torch.cat(
            [part(hf[theirs + "mlp.gate_proj.weight"]), part(hf[theirs + "mlp.up_proj.weight"])])
        state[ours + "mlp.linear_fc2.weight"] = part(hf[theirs + "mlp.down_proj.weight"], 1)
    if is_last:
        state["decoder.final_layernorm.weight"] = hf["model.norm.weight"]
        state["output_layer.weight"] = part(pad(hf["lm_head.weight"]))
    return state


def check_ours(hf):
    for rank in range(2):
        for stage in range(2):
            path = folder / f"megatron/iter_0000001/mp_rank_{rank:02}_{stage:03}/model_optim_rng.pt"
            found = torch.load(path, map_location="cpu", weights_only=True)
            assert found["checkpoint_version"] == 3.0 and found["iteration"] == 1, found.keys()
            half = layers // 2
            expected = megatron_rank(hf, rank, 2, stage * half, half, stage == 0, stage == 1, 256)
            assert found["model"].keys() == expected.keys(), found["model"].keys() ^ expected.keys()
            for name, tensor in expected.items():
                assert torch.equal(found["model"][name].view(torch.int16), tensor.view(torch.int16)), name


def make_theirs(hf):
    for rank in range(2):
        state = megatron_rank(hf, rank, 2, 0, layers, True, True, 128)
        state["decoder.layers.0.mlp.linear_fc1._extra_state"] = torch.zeros(3, dtype=torch.uint8)
        state["output_layer._extra_state"] = None
        options = argparse.Namespace(tensor_model_parallel_size=2, params_dtype=torch.bfloat16, iteration=7)
        path = folder / f"made/iter_0000007/mp_rank_{rank:02}/model_optim_rng.pt"
        path.parent.mkdir(parents=True)
        torch.save({"args": options, "checkpoint_version": 3.0, "iteration": 7, "model": state,
                    "optimizer": {"param_groups": [{"lr": 1e-4}],
                                  "state": {0: torch.nn.Parameter(torch.ones(3))}},
                    "rng_state": [{"cpu": torch.get_rng_state()}]}, path)
    (folder / "made/latest_checkpointed_iteration.txt").write_text("7\n")
    (folder / "made/config.json").write_text(json.dumps(config))


tensors = read_safetensors(folder / "hf/model.safetensors")
check_ours(tensors)
make_theirs(tensors)
print(f"torch {torch.__version__}: ok")
