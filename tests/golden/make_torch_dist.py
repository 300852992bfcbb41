#!/usr/bin/env python3
"""Writes tiny checkpoints of Megatron-Core's torch_dist, and the same weights in Hugging Face's layout.

    python3 make_torch_dist.py [FOLDER]         # FOLDER/torch_dist; needs torch 2 and safetensors, 10 s

torch.distributed.checkpoint writes them. Names, leading axes and boxes are those of Megatron-Core's
sharded_state_dict, written down here from its definition, not from plumbline's code. `llama` is as two tensor
ranks save it, with layers along a leading axis. `mixtral` has experts along a second one. `qwen3_moe` has a
name for every layer and expert (layers that are not alike, singleton_local_shards).
"""
import io
import json
import pathlib
import shutil
import sys

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import save_file
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties
from torch.distributed.checkpoint.planner import SavePlan, TensorWriteData, WriteItem, WriteItemType

H, HEADS, GROUPS, D, FFN, VOCABULARY, PADDED = 16, 4, 2, 4, 24, 29, 32


class Boxes(dcp.DefaultSavePlanner):
    """Saves boxes of tensors as ranks would, and objects as bytes."""

    def __init__(self, boxes, shapes, objects):
        super().__init__(flatten_state_dict=False)
        self.boxes, self.shapes, self.objects = boxes, shapes, objects

    def create_local_plan(self):
        items = []
        for (name, offsets), tensor in self.boxes.items():
            items.append(WriteItem(
                index=MetadataIndex(name, torch.Size(offsets)), type=WriteItemType.SHARD,
                tensor_data=TensorWriteData(
                    chunk=ChunkStorageMetadata(torch.Size(offsets), tensor.size()),
                    properties=TensorProperties.create_from_tensor(tensor),
                    size=torch.Size(self.shapes[name]))))
        items += [WriteItem(index=MetadataIndex(name), type=WriteItemType.BYTE_IO) for name in self.objects]
        self.plan = SavePlan(items)
        return self.plan

    def resolve_data(self, item):
        if item.type == WriteItemType.BYTE_IO:
            stream = io.BytesIO()
            torch.save([self.objects[item.index.fqn]], stream)
            return stream
        return self.boxes[item.index.fqn, tuple(item.index.offset)]


class Model:
    def __init__(self, kind, layers, experts):
        torch.manual_seed(len(kind))
        self.kind, self.layers, self.experts = kind, layers, experts
        self.hf, self.boxes, self.shapes, self.objects = {}, {}, {}, {}

    def random(self, name, *shape):
        self.hf[name] = torch.randn(shape).to(torch.bfloat16)
        return self.hf[name]

    def put(self, name, tensor, axis=None, ranks=1, at=(), of=(), first=0, rows=None):
        """The tensor at `at` of the leading axes, cut for `ranks` along `axis`. `first`, `rows`: place in a
        longer one."""
        whole = list(tensor.size())
        if rows is not None:
            whole[0] = rows
        self.shapes[name] = (*of, *whole)
        for rank, part in enumerate(tensor.chunk(ranks, axis) if axis is not None else [tensor]):
            offsets = [0] * tensor.dim()
            if axis is not None:
                offsets[axis] = rank * part.size(axis)
            offsets[0] += first
            self.boxes[name, (*at, *offsets)] = part.reshape((1,) * len(at) + tuple(part.size())).clone()

    def qkv(self, layer):
        query = self.random(f"model.layers.{layer}.self_attn.q_proj.weight", HEADS * D,
                            H).view(GROUPS, -1, D, H)
        key = self.random(f"model.layers.{layer}.self_attn.k_proj.weight", GROUPS * D,
                          H).view(GROUPS, 1, D, H)
        value = self.random(f"model.layers.{layer}.self_attn.v_proj.weight", GROUPS * D,
                            H).view(GROUPS, 1, D, H)
        return torch.cat([query, key, value], 1).reshape(-1, H)

    def make(self, ranks, alike):
        table = self.random("model.embed_tokens.weight", VOCABULARY, H)
        output = self.random("lm_head.weight", VOCABULARY, H)
        padding = lambda x: torch.cat([x, x[-1:].expand(PADDED - VOCABULARY, H)])
        self.put("embedding.word_embeddings.weight", padding(table), 0, ranks)
        self.put("output_layer.weight", padding(output), 0, ranks)
        self.put("decoder.final_layernorm.weight", self.random("model.norm.weight", H))
        for layer in range(self.layers):
            theirs = f"model.layers.{layer}."
            prefix = "decoder.layers." if alike else f"decoder.layers.{layer}."
            lead = dict(at=(layer,), of=(self.layers,)) if alike else {}
            put = lambda name, tensor, axis=None, **more: self.put(prefix + name, tensor, axis, ranks, **lead,
                                                                   **more)
            put("self_attention.linear_qkv.weight", self.qkv(layer), 0)
            put("self_attention.linear_qkv.layer_norm_weight",
                self.random(theirs + "input_layernorm.weight", H))
            put("self_attention.linear_proj.weight",
                self.random(theirs + "self_attn.o_proj.weight", H, HEADS * D), 1)
            if self.kind == "qwen3_moe":
                put("self_attention.q_layernorm.weight", self.random(theirs + "self_attn.q_norm.weight", D))
                put("self_attention.k_layernorm.weight", self.random(theirs + "self_attn.k_norm.weight", D))
            norm = self.random(theirs + "post_attention_layernorm.weight", H)
            if self.experts:
                put("pre_mlp_layernorm.weight", norm)
                self.mixture(layer, prefix, alike)
                continue
            put("mlp.linear_fc1.layer_norm_weight", norm)
            put("mlp.linear_fc1.weight", self.random(theirs + "mlp.gate_proj.weight", FFN, H), 0,
                rows=2 * FFN)
            put("mlp.linear_fc1.weight", self.random(theirs + "mlp.up_proj.weight", FFN, H), 0, first=FFN,
                rows=2 * FFN)
            put("mlp.linear_fc2.weight", self.random(theirs + "mlp.down_proj.weight", H, FFN), 1)
            self.objects[f"decoder.layers.mlp.linear_fc1._extra_state/shard_{layer}_{self.layers}"] = None

    def mixture(self, layer, prefix, alike):
        mixtral = self.kind == "mixtral"
        theirs = f"model.layers.{layer}." + ("block_sparse_moe." if mixtral else "mlp.")
        lead = dict(at=(layer,), of=(self.layers,)) if alike else {}
        self.put(prefix + "mlp.router.weight", self.random(theirs + "gate.weight", self.experts, H), **lead)
        for expert in range(self.experts):
            name = lambda ours, other: f"{theirs}experts.{expert}.{ours if mixtral else other}.weight"
            gate = self.random(name("w1", "gate_proj"), FFN, H)
            up = self.random(name("w3", "up_proj"), FFN, H)
            down = self.random(name("w2", "down_proj"), H, FFN)
            if alike:
                own = prefix + "mlp.experts.experts."
                lead = dict(at=(layer, expert), of=(self.layers, self.experts))
                self.put(own + "linear_fc1.weight", gate, **lead, rows=2 * FFN)
                self.put(own + "linear_fc1.weight", up, **lead, first=FFN, rows=2 * FFN)
                self.put(own + "linear_fc2.weight", down, **lead)
            else:
                own = prefix + f"mlp.experts.experts.{expert}."
                self.put(own + "linear_fc1.weight_w", gate)
                self.put(own + "linear_fc1.weight_v", up)
                self.put(own + "linear_fc2.weight", down)

    def config(self):
        config = dict(model_type=self.kind, num_hidden_layers=self.layers, hidden_size=H,
                      num_attention_heads=HEADS,
                      num_key_value_heads=GROUPS, head_dim=D, intermediate_size=FFN, vocab_size=VOCABULARY,
                      max_position_embeddings=32, rms_norm_eps=1e-5, tie_word_embeddings=False)
        if self.kind == "mixtral":
            config.update(num_local_experts=self.experts, num_experts_per_tok=2)
        if self.kind == "qwen3_moe":
            config.update(num_experts=self.experts, num_experts_per_tok=2, moe_intermediate_size=FFN,
                          norm_topk_prob=True)
        return config

    def save(self, folder):
        shutil.rmtree(folder, ignore_errors=True)
        hf, iteration = folder / "hf", folder / "torch_dist/iter_0000003"
        hf.mkdir(parents=True)
        iteration.mkdir(parents=True)
        (hf / "config.json").write_text(json.dumps(self.config(), indent=2) + "\n")
        save_file(self.hf, hf / "model.safetensors")
        dcp.save({}, storage_writer=dcp.FileSystemWriter(iteration, thread_count=2),
                 planner=Boxes(self.boxes, self.shapes, self.objects), no_dist=True)
        (iteration / "metadata.json").write_text('{"sharded_backend": "torch_dist", '
                                                 '"sharded_backend_version": 1}')
        (folder / "torch_dist/latest_checkpointed_iteration.txt").write_text("3")


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent
    for kind, layers, experts, ranks, alike in (("llama", 2, 0, 2, True), ("mixtral", 2, 3, 1, True),
                                                ("qwen3_moe", 1, 2, 1, False)):
        model = Model(kind, layers, experts)
        model.make(ranks, alike)
        if kind == "llama":
            model.put("optimizer.state.exp_avg.decoder.final_layernorm.weight", torch.zeros(H))
        model.save(folder / "torch_dist" / kind)
    print(f"torch {torch.__version__}")


if __name__ == "__main__":
    main()
