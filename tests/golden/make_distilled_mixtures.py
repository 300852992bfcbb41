"""Makes the golden files of distillation with mixtures of experts, by PyTorch in double precision.

    python make_distilled_mixtures.py [FOLDER]        needs torch, safetensors, numpy

Models, weights and tokens are those of make_families.py, written out as in make_balance.py. The loss of each
model alone must be the one that transformers gave there. For each pair FOLDER/distillation gets NAME.yaml and
NAME.safetensors (gradients of the student's norms, routers, first layer, first experts and output layer).
Besides the entries of make_distillation.py, expected.json gets the loss: the mean over all targets of (1 -
λ)·KL + λ·CE.
"""

import json
import pathlib
import sys

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

import torch
from make_balance import Balanced
from make_mtp import SAMPLES, SEQ, rms, samples_of
from numpy import load
from safetensors.torch import load_file, save_file
from torch.nn.functional import cross_entropy, embedding, kl_div, log_softmax

PAIRS = {  # student, teacher, temperature, divergence, λ
    "mixture_teacher": ("qwen3", "deepseek_v3", 2.0, "forward", 0.3),
    "mixture_student": ("qwen3_moe", "qwen3", 0.7, "reverse", 0.0),
    "mixtures": ("deepseek_v3", "qwen3_moe", 1.5, "forward", 0.0),
}
KEPT = ("norm", "mlp.gate.weight", "layers.0.self_attn", "experts.0.", "shared_experts",
        "layers.0.mlp.down_proj", "lm_head")


class Model(Balanced):
    def __init__(self, source):
        config = json.loads((source / "config.json").read_text())
        self.is_mixture = "num_experts_per_tok" in config
        super().__init__(config, load_file(source / "model.safetensors"))
        tokens = torch.from_numpy(load(source / "tokens.npy")).long()
        with torch.no_grad():
            own = samples_of(tokens, 0)
            alone = cross_entropy(self.logits(own[:, :SEQ]).flatten(0, 1), own[:, 1:].flatten()).item()
        known = json.loads((source / "expected.json").read_text())["loss"]
        assert abs(alone / known - 1) < 1e-6, (source, alone, known)

    def layer(self, index, x):
        if self.is_mixture:
            return super().layer(index, x)
        self.config["first_k_dense_replace"] = 1 << 30
        return super().layer(index, x)

    def logits(self, inputs):
        table = self.w["model.embed_tokens.weight"]
        out = table if self.config["tie_word_embeddings"] else self.w["lm_head.weight"]
        x = embedding(inputs, table)
        for index in range(self.config["num_hidden_layers"]):
            x = self.layer(index, x)
        return rms(x, self.w["model.norm.weight"], self.config["rms_norm_eps"]) @ out.T


def make(root, name, student_name, teacher_name, temperature, kl, lm_weight):
    folder = root / "distillation"
    families = root / "families"
    student, teacher = Model(families / student_name), Model(families / teacher_name)
    ids = samples_of(torch.from_numpy(load(families / student_name / "tokens.npy")).long(), 0)
    inputs, targets = ids[:, :SEQ], ids[:, 1:].flatten()
    logits = student.logits(inputs).flatten(0, 1)
    with torch.no_grad():
        soft = teacher.logits(inputs).flatten(0, 1)
    log_s, log_p = log_softmax(logits / temperature, -1), log_softmax(soft / temperature, -1)
    first, second = (log_s, log_p) if kl == "forward" else (log_p, log_s)  # kl_div(a, b) is KL(b || a)
    divergence = kl_div(first, second, reduction="batchmean", log_target=True)
    loss = (1 - lm_weight) * divergence + lm_weight * cross_entropy(logits, targets)
    loss.backward()
    kept = {t: w.grad.float().contiguous() for t, w in student.w.items() if w.grad is not None
            and any(k in t for k in KEPT)}
    save_file(kept, folder / f"{name}.safetensors")
    (folder / f"{name}.yaml").write_text(
        f"# The golden {student_name} model learning from the golden {teacher_name}.\n"
        f"model: ../families/{student_name}/config.json\nweights: ../families/{student_name}\n"
        f"data: ../families/{student_name}/tokens.npy\nteacher: ../families/{teacher_name}/config.json\n"
        f"teacher_weights: ../families/{teacher_name}\ndistillation_temperature: {temperature}\n"
        f"distillation_kl: {kl}\ndistillation_lm_weight: {lm_weight}\n"
        f"seq_length: {SEQ}\nmicro_batch_size: 1\n"
        f"global_batch_size: {SAMPLES}\nprecision: fp32\nmake_vocab_size_divisible_by: 1\n"
    )
    print(f"{name}: loss {loss.item():.9f}, {len(kept)} gradients")
    return loss.item()


def main():
    torch.set_num_threads(1)
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    path = root / "distillation" / "expected.json"
    expected = json.loads(path.read_text())
    for name, pair in PAIRS.items():
        expected[name] = make(root, name, *pair)
    path.write_text(json.dumps(expected, indent=2) + "\n")


if __name__ == "__main__":
    main()
