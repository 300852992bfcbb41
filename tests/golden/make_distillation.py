"""Makes the golden files of distillation: loss and student gradients by PyTorch and transformers.

    python make_distillation.py [FOLDER]        needs torch, transformers, safetensors, numpy

The student is the golden qwen2 model with its tokens, the teacher a wider llama of the same vocabulary, made
here. FOLDER/distillation gets the teacher's checkpoint and loss_mask.bin (one byte per token). For each loss
it gets NAME.yaml, NAME.safetensors (gradients of every student parameter), and the losses in expected.json. A
token counts when its byte is 1. The loss is the sum over the counted targets of (1 - λ)·KL + λ·CE,
divided by their number.
"""

import json
import pathlib
import sys

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

import numpy
import torch
import transformers
from make_golden import COMMON, SAMPLES, SEQ, randomise
from safetensors.torch import save_file
from torch.nn.functional import cross_entropy, kl_div, log_softmax

LOSSES = {
    "forward": dict(temperature=2.0, kl="forward", lm_weight=0.3, cache="logits"),
    "reverse": dict(temperature=0.7, kl="reverse", lm_weight=0.0, cache="hidden"),
}

TEACHER = transformers.LlamaConfig(
    **{**COMMON, "hidden_size": 36, "intermediate_size": 48},
    num_hidden_layers=4,
    num_attention_heads=6,
    num_key_value_heads=2,
    head_dim=4,
    tie_word_embeddings=False,
    rope_parameters={"rope_type": "default", "rope_theta": 1e4},
)


def loss_of(student, teacher, inputs, targets, counts, temperature, kl, lm_weight):
    logits = student(input_ids=inputs, use_cache=False).logits.flatten(0, 1)
    with torch.no_grad():
        soft = teacher(input_ids=inputs, use_cache=False).logits.flatten(0, 1)
    log_s = log_softmax(logits / temperature, dim=-1)
    log_p = log_softmax(soft / temperature, dim=-1)
    # kl_div(a, b) is KL(b || a).
    first, second = (log_s, log_p) if kl == "forward" else (log_p, log_s)
    divergence = kl_div(first, second, reduction="none", log_target=True).sum(dim=-1)
    token_losses = (1 - lm_weight) * divergence + lm_weight * cross_entropy(logits, targets, reduction="none")
    return (token_losses * counts).sum() / counts.sum()


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    folder = root / "distillation"
    generator = torch.Generator().manual_seed(11)
    teacher = transformers.AutoModelForCausalLM.from_config(
        TEACHER, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    randomise(teacher, generator)
    (folder / "teacher").mkdir(parents=True, exist_ok=True)
    teacher.save_pretrained(folder / "teacher")
    (folder / "teacher" / "generation_config.json").unlink(missing_ok=True)

    tokens = torch.from_numpy(numpy.load(root / "qwen2" / "tokens.npy")).long()
    mask = (torch.rand(tokens.shape, generator=generator) < 0.7).to(torch.uint8)
    (folder / "loss_mask.bin").write_bytes(mask.numpy().tobytes())
    starts = [i * SEQ for i in range(SAMPLES)]
    inputs = torch.stack([tokens[i : i + SEQ] for i in starts])
    targets = torch.cat([tokens[i + 1 : i + SEQ + 1] for i in starts])
    counts = torch.cat([mask[i + 1 : i + SEQ + 1] for i in starts]).float()

    expected = {"torch": torch.__version__, "transformers": transformers.__version__}
    for name, loss in LOSSES.items():
        student = transformers.AutoModelForCausalLM.from_pretrained(
            root / "qwen2", dtype=torch.float32, attn_implementation="eager"
        ).eval()
        value = loss_of(student, teacher, inputs, targets, counts, loss["temperature"], loss["kl"],
                        loss["lm_weight"])
        value.backward()
        save_file({k: p.grad.contiguous() for k, p in student.named_parameters()},
                  folder / f"{name}.safetensors")
        expected[name] = value.item()
        (folder / f"{name}.yaml").write_text(
            "# The golden qwen2 model learning from the teacher beside this file.\n"
            "model: ../qwen2/config.json\nweights: ../qwen2\ndata: ../qwen2/tokens.npy\n"
            "teacher: teacher/config.json\nteacher_weights: teacher\nloss_mask: loss_mask.bin\n"
            f"distillation_temperature: {loss['temperature']}\ndistillation_kl: {loss['kl']}\n"
            f"distillation_lm_weight: {loss['lm_weight']}\ndistillation_cache: {loss['cache']}\n"
            f"seq_length: {SEQ}\nmicro_batch_size: 1\nglobal_batch_size: {SAMPLES}\nprecision: fp32\n"
            "make_vocab_size_divisible_by: 1\n"
        )
        print(f"{name}: loss {expected[name]:.6f}, {int(counts.sum())} of {len(counts)} tokens count")
    (folder / "expected.json").write_text(json.dumps(expected, indent=2) + "\n")


if __name__ == "__main__":
    main()
