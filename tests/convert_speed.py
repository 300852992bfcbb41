#!/usr/bin/env python3
"""Measures time and memory of `plumbline convert` against `cp` and a script with torch on the same disk.

    python3 convert_speed.py PROGRAM FOLDER [--hidden 2048] [--layers 16] [--rounds 3]
                             [--python /usr/bin/python3]
    python3 convert_speed.py PROGRAM FOLDER --hidden 4096 --layers 32 --kv-heads 32 --there
                             # 7B: 13.5 GB and as much again

Makes a llama of random bf16 weights in FOLDER (about 1.9 GiB by default). Converts it for two tensor and two
pipeline ranks, and back. Each round runs everything once, one after the other, and ends with the disk
synchronised. --there converts it for two tensor ranks only and removes every result at once, so that the disk
holds two copies instead of six. Prints medians. Peak memory is the largest resident set, including pages of
mapped files.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import struct
import subprocess
import time

TORCH = """
import collections, json, pathlib, struct, sys, torch
source, target = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
config = json.loads((source / "config.json").read_text())
path = source / "model.safetensors"
with path.open("rb") as file:
    length, = struct.unpack("<Q", file.read(8))
    header = json.loads(file.read(length))
header.pop("__metadata__", None)
whole = torch.from_file(str(path), size=path.stat().st_size, dtype=torch.uint8)


def tensor_of(entry):
    first, end = (8 + length + offset for offset in entry["data_offsets"])
    return whole[first:end].view(torch.bfloat16).view(entry["shape"])


hf = {name: tensor_of(entry) for name, entry in header.items()}
tp, pp, layers = 2, 2, config["num_hidden_layers"]
groups, heads = config["num_key_value_heads"], config["num_attention_heads"]
d = config["hidden_size"] // heads
for p in range(pp):
    states = [collections.OrderedDict() for _ in range(tp)]
    def put(name, tensor, dim=None):
        for rank, state in enumerate(states):
            state[name] = (tensor if dim is None else tensor.chunk(tp, dim)[rank]).clone()
    if p == 0: put("embedding.word_embeddings.weight", hf["model.embed_tokens.weight"], 0)
    for local in range(layers // pp):
        a, b = f"model.layers.{p * layers // pp + local}.", f"decoder.layers.{local}."
        q, k, v = (hf[a + f"self_attn.{n}_proj.weight"].view(groups, -1, d, config["hidden_size"])
                   for n in "qkv")
        put(b + "self_attention.linear_qkv.weight",
            torch.cat([q, k, v], 1).reshape(-1, config["hidden_size"]), 0)
        put(b + "self_attention.linear_qkv.layer_norm_weight", hf[a + "input_layernorm.weight"])
        put(b + "self_attention.linear_proj.weight", hf[a + "self_attn.o_proj.weight"], 1)
        put(b + "mlp.linear_fc1.layer_norm_weight", hf[a + "post_attention_layernorm.weight"])
        gate, up = (hf[a + f"mlp.{n}_proj.weight"].chunk(tp) for n in ("gate", "up"))
        for rank, state in enumerate(states):
            state[b + "mlp.linear_fc1.weight"] = torch.cat([gate[rank], up[rank]])
        put(b + "mlp.linear_fc2.weight", hf[a + "mlp.down_proj.weight"], 1)
    if p == pp - 1:
        put("decoder.final_layernorm.weight", hf["model.norm.weight"])
        put("output_layer.weight", hf["lm_head.weight"], 0)
    for rank, state in enumerate(states):
        out = target / f"iter_0000001/mp_rank_{rank:02}_{p:03}/model_optim_rng.pt"
        out.parent.mkdir(parents=True)
        torch.save({"checkpoint_version": 3.0, "iteration": 1, "model": state}, out)
"""


def make(folder, hidden, layers, kv_heads=0, vocabulary=32768):
    folder.mkdir(parents=True, exist_ok=True)
    heads, ffn = hidden // 128, hidden * 11 // 4
    kv_heads = kv_heads or heads // 2
    config = dict(model_type="llama", num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads,
                  num_key_value_heads=kv_heads, intermediate_size=ffn, vocab_size=vocabulary,
                  max_position_embeddings=4096, rms_norm_eps=1e-5, tie_word_embeddings=False)
    (folder / "config.json").write_text(json.dumps(config))
    shapes = {"model.embed_tokens.weight": [vocabulary, hidden], "lm_head.weight": [vocabulary, hidden],
              "model.norm.weight": [hidden]}
    for layer in range(layers):
        for name, shape in (("input_layernorm", [hidden]), ("post_attention_layernorm", [hidden]),
                            ("self_attn.q_proj", [hidden, hidden]),
                            ("self_attn.k_proj", [kv_heads * 128, hidden]),
                            ("self_attn.v_proj", [kv_heads * 128, hidden]),
                            ("self_attn.o_proj", [hidden, hidden]),
                            ("mlp.gate_proj", [ffn, hidden]), ("mlp.up_proj", [ffn, hidden]),
                            ("mlp.down_proj", [hidden, ffn])):
            shapes[f"model.layers.{layer}.{name}.weight"] = shape
    header, at = {}, 0
    for name, shape in shapes.items():
        size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = dict(dtype="BF16", shape=shape, data_offsets=[at, at + size])
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # tensors at multiples of their element, as torch wants them
    noise = os.urandom(1 << 24)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for begin in range(0, at, len(noise)):
            file.write(noise[:min(len(noise), at - begin)])
    return at


def timed(command):
    """Seconds, the disk synchronised before and after, and the peak of resident memory in MiB."""
    os.sync()
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    os.sync()
    if status != 0:
        raise SystemExit(f"{command[0]} ended with {status}")
    return time.monotonic() - begin, usage.ru_maxrss / 1024


def remove_results(folder):
    for name in ("copy", "megatron", "back", "tp4", "torch"):
        shutil.rmtree(folder / name, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kv-heads", type=int, default=0, help="half of the heads unless said")
    parser.add_argument("--there", action="store_true", help="only to Megatron, and cp")
    parser.add_argument("--python", default="/usr/bin/python3", help="one that has torch")
    options = parser.parse_args()
    folder = options.folder
    size = make(folder / "hf", options.hidden, options.layers, options.kv_heads)
    split = ["--to", "megatron", "--tp", "2", "--pp", "2", "--quiet"]
    program, at = options.program, lambda name: str(folder / name)
    jobs = {
        "cp": ["cp", "-r", at("hf"), at("copy")],
        "plumbline, to Megatron": [program, "convert", at("hf"), at("megatron"), *split],
        "plumbline, back": [program, "convert", at("megatron"), at("back"), "--quiet"],
        "plumbline, tp 2 pp 2 to tp 4": [program, "convert", at("megatron"), at("tp4"), "--to", "megatron",
                                         "--tp", "4",
                                         "--quiet"],
        "torch, to Megatron": [options.python, "-c", TORCH, at("hf"), at("torch")],
    }
    if options.there:
        jobs = {"cp": jobs["cp"], "plumbline, to Megatron": [program, "convert", at("hf"), at("megatron"),
                                                             "--tp", "2",
                                                             "--quiet"]}
    elif subprocess.run([options.python, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode != 0:
        del jobs["torch, to Megatron"]
    measured = {name: [] for name in jobs}
    for _ in range(options.rounds):
        for name, command in jobs.items():
            measured[name].append(timed(command))
            if options.there:
                remove_results(folder)
        remove_results(folder)
    copied = statistics.median(seconds for seconds, _ in measured["cp"])
    print(f"{size / 2**30:.2f} GiB, medians of {options.rounds} rounds")
    for name, values in measured.items():
        seconds = statistics.median(s for s, _ in values)
        spread = f"{min(s for s, _ in values):.1f} to {max(s for s, _ in values):.1f}"
        print(f"{name:30} {seconds:6.1f} s ({spread})  {size / 2**20 / seconds:7.0f} MiB/s  "
              f"{copied / seconds:5.2f} of cp"
              f"  peak {max(m for _, m in values):6.0f} MiB")
    shutil.rmtree(folder / "hf")


if __name__ == "__main__":
    main()
