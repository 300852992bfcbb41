"""Makes golden/lora: ten steps of LoRA on golden models, by PyTorch and transformers.

    python make_lora.py [FOLDER]        needs torch, transformers, safetensors, peft

FOLDER/<name> gets adapter_model.safetensors and adapter_config.json (the start, as PEFT saves it), gradients
of the first step (not clipped) and expected.json with ten losses. Adapters are written by hand:
y = x W^T + (alpha / r)(x A^T) B^T. Queries, keys and values have one A, and so have gate and up. Those of
llama_canonical, llama_rslora and those of golden/families are PEFT's own, with an A for each module, and
computed in fp64: in fp32 PyTorch's tenth loss is off by 1e-5. AdamW, gradients clipped.
"""

import json
import pathlib
import sys

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

import numpy
import torch
import transformers
from safetensors.torch import save_file

from make_golden import SAMPLES, SEQ, loss_of

RANK, ALPHA, RATE, DECAY, CLIP, STEPS = 4, 10, 0.01, 0.1, 0.5, 10
# Modules of one linear layer here, by layer.
LINEAR = {
    "llama": [["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"], ["self_attn.o_proj"],
              ["mlp.gate_proj", "mlp.up_proj"], ["mlp.down_proj"]],
    "gpt2": [["attn.c_attn"], ["attn.c_proj"], ["mlp.c_fc"], ["mlp.c_proj"]],
}
LAYERS = {"llama": "model.layers", "gpt2": "transformer.h"}


class Adapted(torch.nn.Module):
    def __init__(self, linear, a, b):
        super().__init__()
        self.linear, self.a, self.b = linear, a, b

    def forward(self, x):
        return self.linear(x) + ALPHA / RANK * (x @ self.a.T) @ self.b.T


def adapt(model, name, targets, generator):
    """Wraps the linear layers; returns {PEFT name: parameter}."""
    named = {}
    for layer in range(model.config.num_hidden_layers):
        for modules in LINEAR.get(name, LINEAR["llama"])[:targets]:
            shared = None
            for module in modules:
                path = f"{LAYERS[name]}.{layer}.{module}"
                parent, leaf = path.rsplit(".", 1)
                linear = model.get_submodule(path)
                shape = linear.weight.T.shape if name == "gpt2" else linear.weight.shape
                if shared is None:
                    shared = torch.nn.Parameter(
                        (2 * torch.rand(RANK, shape[1], generator=generator) - 1) * shape[1] ** -0.5)
                b = torch.nn.Parameter(0.1 * torch.randn(shape[0], RANK, generator=generator))
                setattr(model.get_submodule(parent), leaf, Adapted(linear, shared, b))
                named[f"base_model.model.{path}.lora_A.weight"] = shared
                named[f"base_model.model.{path}.lora_B.weight"] = b
    return named


def copies(tensors):
    return {key: tensor.detach().clone().float().contiguous() for key, tensor in tensors.items()}


def adapt_by_peft(model, name, targets, generator, config):
    """PEFT's own adapters in fp64, with B unlike zero; returns its model and {PEFT name: parameter}."""
    import peft
    options = peft.LoraConfig(**config, target_modules=[module for modules in LINEAR.get(name, LINEAR["llama"])[:targets]
                                                        for module in modules])
    model = peft.get_peft_model(model, options).double()
    named = {key.replace(".default.", "."): p for key, p in model.named_parameters() if p.requires_grad}
    with torch.no_grad():
        for key, p in named.items():
            scale = 0.1 if ".lora_B." in key else p.shape[1] ** -0.5
            p.copy_(scale * torch.randn(p.shape, generator=generator))  # of fp32
    return model, named


def make(name, targets, folder, frozen="lora", alpha=ALPHA, peft_config=None):
    source = pathlib.Path(__file__).parent / name
    generator = torch.Generator().manual_seed(63)
    model = transformers.AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32,
                                                              attn_implementation="eager",
                                                              experts_implementation="eager")
    model.eval()
    model.requires_grad_(False)
    if peft_config:
        model, named = adapt_by_peft(model, name, targets, generator, peft_config)
    else:
        named = adapt(model, name, targets, generator)
    tokens = torch.from_numpy(numpy.load(source / "tokens.npy"))
    folder.mkdir(parents=True, exist_ok=True)
    save_file(copies(named), folder / "adapter_model.safetensors")
    config = peft_config or {"r": RANK, "lora_alpha": ALPHA, "task_type": "CAUSAL_LM"}
    targeted = [module for modules in LINEAR.get(name, LINEAR["llama"])[:targets] for module in modules]
    (folder / "adapter_config.json").write_text(json.dumps(
        {"peft_type": "LORA", **config, "target_modules": targeted}, indent=2) + "\n")
    parameters = list({id(p): p for p in named.values()}.values())
    optimizer = torch.optim.AdamW(parameters, lr=RATE, betas=(0.9, 0.95), eps=1e-8, weight_decay=DECAY)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        first = step * SAMPLES * SEQ  # plumbline continues in the file and wraps around
        ids = tokens[(first + torch.arange(SAMPLES * SEQ + 1)) % len(tokens)]
        loss = loss_of(model, ids)
        loss.backward()
        if step == 0:
            save_file(copies({key: p.grad for key, p in named.items()}), folder / "gradients.safetensors")
        torch.nn.utils.clip_grad_norm_(parameters, CLIP)
        optimizer.step()
        losses.append(loss.item())
    (folder / "expected.json").write_text(json.dumps({"losses": losses, "torch": torch.__version__},
                                                     indent=2) + "\n")
    purpose = f"LoRA on the golden {name} model: losses and first gradients must be those beside this file."
    (folder / "run.yaml").write_text(f"""# {purpose}
model: ../../{name}/config.json
weights: ../../{name}
data: ../../{name}/tokens.npy
seq_length: {SEQ}
micro_batch_size: 1
global_batch_size: {SAMPLES}
precision: fp32
make_vocab_size_divisible_by: 1
frozen: {frozen}
lora_rank: {RANK}
lora_alpha: {alpha}
lora_targets: {"attention" if targets == 2 else "all"}
lora_weights: .
learning_rate: {RATE}
weight_decay: {DECAY}
clip_grad: {CLIP}
steps: {STEPS}
warmup_steps: 0
""")


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "lora"
    make("llama", 2, folder / "llama")
    make("llama", 4, folder / "llama_all")
    make("gpt2", 4, folder / "gpt2")
    plain = {"r": RANK, "lora_alpha": ALPHA, "task_type": "CAUSAL_LM"}
    make("llama", 4, folder / "llama_canonical", "canonical_lora", peft_config=plain)
    make("llama", 2, folder / "llama_rslora", "canonical_lora", ALPHA * RANK ** 0.5,
         {**plain, "use_rslora": True})
    for family, targets in {"qwen3": 4, "olmo2": 4, "exaone4": 4, "qwen3_moe": 2}.items():
        make(f"families/{family}", targets, folder / family, "canonical_lora", peft_config=plain)


if __name__ == "__main__":
    main()
