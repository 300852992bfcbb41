"""Makes the golden files of supervised fine-tuning: losses of ten AdamW steps, and the first gradients.

Of all parameters, and (MODEL_lora) of LoRA adapters alone, which start as make_lora.py's.

    python make_sft.py [FOLDER]        needs torch, transformers, safetensors

FOLDER/sft gets chats.jsonl and, for the golden llama and gpt2, MODEL.json and MODEL.safetensors. Every step
takes all conversations one by one, unpadded, with transformers' labels and num_items_in_batch: the loss is
the mean over the answered tokens of all of them.
"""

import json
import pathlib
import random
import sys

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

import torch
import transformers
from safetensors.torch import load_file, save_file

from make_lora import adapt

LR, LORA_LR, DECAY, STEPS = 1e-3, 1e-2, 0.01, 10
# Adapters of all linear layers, in golden/lora.
ADAPTERS = {"llama_lora": "llama_all", "gpt2_lora": "gpt2"}
LENGTHS = (24, 3, 17, 8, 11, 2, 21, 5, 13, 9, 16, 4, 7, 19, 6, 10)


def conversations(draws):
    """Turns of a user and of an assistant, whose tokens are answered."""
    for length in LENGTHS:
        ids = [draws.randrange(61) for _ in range(length)]
        first = draws.randrange(1, max(2, length - 1))
        second = draws.randrange(first, length)
        answered = [first <= j < second or j == length - 1 for j in range(length)]
        yield ids, answered


def write_chats(path, chats):
    lines = []
    for number, (ids, answered) in enumerate(chats):
        line = {"input_ids": ids, "attention_mask": [1] * len(ids)}
        if number % 3 == 0:
            line["assistant_masks"] = [int(a) for a in answered]
        else:
            line["labels"] = [i if a else -100 for i, a in zip(ids, answered, strict=True)]
        lines.append(json.dumps(line) + "\n")
    path.write_text("".join(lines))


def backward(model, chats):
    """Gradients of one step; returns its loss."""
    items = sum(sum(answered[1:]) for _, answered in chats)
    total = 0.0
    for ids, answered in chats:
        ids = torch.tensor([ids])
        labels = torch.where(torch.tensor([answered]), ids, -100)
        loss = model(input_ids=ids, labels=labels, num_items_in_batch=items, use_cache=False).loss
        loss.backward()
        total += loss.item()
    return total


def trained(model, name, folder):
    """Trained parameters by name: all, or those of adapters."""
    if name not in ADAPTERS:
        return dict(model.named_parameters())
    model.requires_grad_(False)
    named = adapt(model, name.removesuffix("_lora"), 4, torch.Generator())
    for key, value in load_file(folder / "lora" / ADAPTERS[name] / "adapter_model.safetensors").items():
        named[key].data.copy_(value)
    return named


def make(name, folder, chats):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder / name.removesuffix("_lora"), dtype=torch.float32, attn_implementation="eager")
    model.eval()
    named = trained(model, name, folder)
    matrices = list({id(p): p for p in named.values() if p.dim() > 1}.values())
    vectors = [p for p in named.values() if p.dim() == 1]
    groups = [dict(params=matrices, weight_decay=DECAY), dict(params=vectors, weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, lr=LORA_LR if name in ADAPTERS else LR, betas=(0.9, 0.95), eps=1e-8)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        losses.append(backward(model, chats))
        if step == 0:
            gradients = {key: p.grad.clone().contiguous() for key, p in named.items()}
            save_file(gradients, folder / "sft" / f"{name}.safetensors")
        optimizer.step()
    expected = {"losses": losses, "torch": torch.__version__, "transformers": transformers.__version__}
    (folder / "sft" / f"{name}.json").write_text(json.dumps(expected, indent=2) + "\n")
    print(name, losses)


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    (folder / "sft").mkdir(exist_ok=True)
    torch.use_deterministic_algorithms(True)
    chats = list(conversations(random.Random(63)))
    write_chats(folder / "sft" / "chats.jsonl", chats)
    for name in ("llama", "gpt2", *ADAPTERS):
        make(name, folder, chats)


main()
