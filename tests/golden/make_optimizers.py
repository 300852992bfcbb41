"""Makes the golden files of optimizers: losses and weights of ten steps of golden models.

    python make_optimizers.py [FOLDER [NAME ...]]        needs torch, transformers, safetensors, numpy

Written from the publications: SGD with momentum as torch.optim.SGD has it, Lion (arXiv:2302.06675, algorithm
2), Muon (kellerjordan.github.io/posts/muon; arXiv:2502.16982) with AdamW for embeddings, output layers and
vectors. FOLDER/optimizers/<name> gets run.yaml, expected.json with the losses, and weights.safetensors with
the weights after the last step. Tokens and first weights are those of the model's own golden.
"""

import json
import pathlib
import re
import shutil
import sys
import tempfile

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

import numpy
import torch
import transformers
from make_families import samples_of
from make_golden import SAMPLES, SEQ, loss_of

STEPS = 10
DECAY = 0.01
BETAS = (0.9, 0.95)

CASES = {
    "sgd_momentum": dict(model="qwen2", optimizer="sgd", sgd_momentum=0.9, learning_rate=0.02),
    "lion": dict(model="qwen2", optimizer="lion", learning_rate=1e-3),
    "muon": dict(model="qwen2", optimizer="muon", learning_rate=1e-3, muon_extra_scale_factor=0.2),
    "muon_simple": dict(model="qwen2", optimizer="muon", learning_rate=1e-3, muon_nesterov=True,
                        muon_momentum=0.9, muon_scale_mode="shape_scaling", muon_num_ns_steps=3,
                        muon_coefficient_type="simple", muon_split_qkv=False),
    "muon_experts": dict(model="families/deepseek_v3", optimizer="muon", learning_rate=1e-3,
                         muon_scale_mode="unit_rms_norm", moe_router_bias_update_rate=0),
    "muon_shared": dict(model="families/qwen2_moe", optimizer="muon", learning_rate=1e-3,
                        muon_extra_scale_factor=0.2),
}
SETS = {
    "simple": [(3.4445, -4.7750, 2.0315)],
    "quintic": [(4.0848, -6.8946, 2.9270), (3.9505, -6.3029, 2.6377), (3.7418, -5.5913, 2.3037),
                (2.8769, -3.1427, 1.2046), (2.8366, -3.0525, 1.2012)],
}


def orthogonal(update, case):
    """In double precision, scaled by its shape."""
    x = update.double()
    rows, cols = x.shape
    if rows > cols:
        x = x.T
    x = x / x.norm().clamp_min(1e-15)
    coefficients = SETS[case.get("muon_coefficient_type", "quintic")]
    for step in range(case.get("muon_num_ns_steps", 5)):
        a, b, c = coefficients[step % len(coefficients)]
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    if rows > cols:
        x = x.T
    scale = {"spectral": max(rows, cols) ** 0.5, "unit_rms_norm": (rows / cols) ** 0.5,
             "shape_scaling": max(1, rows / cols) ** 0.5}[case.get("muon_scale_mode", "spectral")]
    return (x * scale * case.get("muon_extra_scale_factor", 1)).float()


class Muon:
    """Matrices of layers; projections that a linear layer joins are one matrix."""

    def __init__(self, model, case):
        self.case = case
        named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        self.matrices = [(name, p) for name, p in named if p.dim() > 1 and ".layers." in name]
        chosen = {name for name, _ in self.matrices}
        others = [(name, p) for name, p in named if name not in chosen]
        self.adam = torch.optim.AdamW(
            [dict(params=[p for _, p in others if p.dim() > 1], weight_decay=DECAY),
             dict(params=[p for _, p in others if p.dim() == 1], weight_decay=0.0)],
            lr=case["learning_rate"], betas=BETAS, eps=1e-8)
        self.momentum = {name: torch.zeros_like(p) for name, p in self.matrices}

    def blocks(self):
        """Names of the parameters that are one matrix together."""
        joined = [("gate_proj", "up_proj")]
        if not self.case.get("muon_split_qkv", True):
            joined.append(("q_proj", "k_proj", "v_proj"))
        names = [name for name, _ in self.matrices]
        for name in names:
            group = next((g for g in joined if any(re.search(rf"\.{part}\.", name) for part in g)), (None,))
            if group == (None,):
                yield [name]
            elif re.search(rf"\.{group[0]}\.", name):
                yield [name.replace(f".{group[0]}.", f".{part}.") for part in group]

    def step(self):
        keep = self.case.get("muon_momentum", 0.95)
        parameters = dict(self.matrices)
        rate = self.case["learning_rate"]
        updates = {}
        for name, p in self.matrices:
            self.momentum[name] = keep * self.momentum[name] + (1 - keep) * p.grad
            nesterov = self.case.get("muon_nesterov", False)
            updates[name] = ((1 - keep) * p.grad + keep * self.momentum[name] if nesterov
                             else self.momentum[name])
        for names in self.blocks():
            together = torch.cat([updates[name] for name in names], -2)
            if together.dim() == 3:  # experts
                result = torch.stack([orthogonal(each, self.case) for each in together])
            else:
                result = orthogonal(together, self.case)
            for name, part in zip(names, result.split([updates[n].shape[-2] for n in names], -2)):
                parameters[name].mul_(1 - rate * DECAY).sub_(rate * part)
        self.adam.step()


class Lion:
    def __init__(self, model, case):
        self.rate = case["learning_rate"]
        self.parameters = list(model.parameters())
        self.momentum = [torch.zeros_like(p) for p in self.parameters]

    def step(self):
        for p, m in zip(self.parameters, self.momentum):
            direction = torch.sign(0.9 * m + (1 - 0.9) * p.grad)
            p.mul_(1 - self.rate * (DECAY if p.dim() > 1 else 0)).sub_(self.rate * direction)
            m.mul_(0.99).add_(p.grad, alpha=1 - 0.99)


def optimizer_of(model, case):
    if case["optimizer"] == "muon":
        return Muon(model, case)
    if case["optimizer"] == "lion":
        return Lion(model, case)
    return torch.optim.SGD(model.parameters(), lr=case["learning_rate"], momentum=case["sgd_momentum"])


def make(root, name, case):
    source = root / case["model"]
    model = transformers.AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32,
                                                              attn_implementation="eager")
    model.eval()
    tokens = torch.from_numpy(numpy.load(source / "tokens.npy"))
    optimizer = optimizer_of(model, case)
    losses = []
    for step in range(STEPS):
        model.zero_grad()
        loss = loss_of(model, samples_of(tokens, step))
        loss.backward()
        losses.append(loss.item())
        with torch.no_grad():
            optimizer.step()
    folder = root / "optimizers" / name
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as saved:
        model.save_pretrained(saved)
        shutil.copy(pathlib.Path(saved) / "model.safetensors", folder / "weights.safetensors")
    expected = {"losses": losses, "torch": torch.__version__, "transformers": transformers.__version__}
    (folder / "expected.json").write_text(json.dumps(expected, indent=2) + "\n")
    up = "../../" + case["model"]
    keys = {key: value for key, value in case.items() if key != "model"}
    (folder / "run.yaml").write_text(
        f"# The golden {case['model']}: losses and last weights must be those beside this file.\n"
        f"model: {up}/config.json\nweights: {up}\ndata: {up}/tokens.npy\n"
        f"seq_length: {SEQ}\nmicro_batch_size: 1\nglobal_batch_size: {SAMPLES}\nprecision: fp32\n"
        f"make_vocab_size_divisible_by: 1\nclip_grad: 0\nwarmup_steps: 0\nsteps: {STEPS}\n"
        + ("" if case["optimizer"] == "sgd" else f"weight_decay: {DECAY}\n")
        + "".join(f"{key}: {str(value).lower()}\n" for key, value in keys.items()))
    print(f"{name}: losses {losses[0]:.4f} to {losses[-1]:.4f}")


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    for name, case in CASES.items():
        if not sys.argv[2:] or name in sys.argv[2:]:
            make(root, name, case)


if __name__ == "__main__":
    main()
