"""Makes the golden gradients of load-balancing losses, by PyTorch in double precision.

    python make_balance.py [FOLDER]        needs torch, safetensors, numpy

Models, weights and tokens are those of make_families.py: qwen3_moe (softmax) and deepseek_v3 (sigmoids,
groups of experts). One step of SAMPLES samples on COPIES replicas, with micro-batches of SEQUENCES samples:
micro-batch m of replica d has the samples from (m * COPIES + d) * SEQUENCES on. The losses are
Megatron-Core's three (moe_router_load_balancing_type), with probabilities as means over their micro-batch:
Fedus et al. 2021 (arXiv:2101.03961 section 2.2), DeepSeek-V3 (arXiv:2412.19437 equations 17 to 20), and for
the global batch so far Qiu et al. 2025 (arXiv:2501.11873). FOLDER/balance/<case> gets the gradients of every
router and of the embedding, and expected.json: the settings of the case, and the reported loss.
"""

import json
import pathlib
import sys

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

import torch
from make_mtp import SAMPLES, Model, samples_of
from numpy import load
from safetensors.torch import load_file, save_file

COEFFICIENT = 1.5

CASES = {  # model, type, sequences of a micro-batch, copies
    "softmax_aux": ("qwen3_moe", "aux_loss", 2, 1),
    "softmax_seq": ("qwen3_moe", "seq_aux_loss", 2, 1),
    "softmax_global": ("qwen3_moe", "global_aux_loss", 1, 1),
    "softmax_global_two": ("qwen3_moe", "global_aux_loss", 2, 2),
    "sigmoid_seq": ("deepseek_v3", "seq_aux_loss", 2, 1),
    "sigmoid_global": ("deepseek_v3", "global_aux_loss", 2, 1),
    "sigmoid_global_two": ("deepseek_v3", "global_aux_loss", 1, 2),
}


class Balanced(Model):
    """Notes the balanced probabilities, and how many tokens chose each expert, for every sample and layer."""

    def __init__(self, config, tensors):
        super().__init__(config, tensors, 0, 0)
        self.noted = []

    def experts(self, p, x):
        c = self.config
        logits = x @ self.w[p + "gate.weight"].T
        if "n_group" in c:
            scores = torch.sigmoid(logits)
            choice = scores.detach() + self.w[p + "gate.e_score_correction_bias"]
            groups = choice.unflatten(-1, (c["n_group"], -1))
            best = groups.topk(2, -1).values.sum(-1).topk(c["topk_group"], -1).indices
            allowed = torch.zeros(groups.shape[:-1], dtype=torch.bool).scatter(-1, best, True)
            choice = groups.masked_fill(~allowed[..., None], 0.0).flatten(-2)
            result = super().experts(p, x)
        else:
            scores = torch.softmax(logits, -1)
            choice = scores.detach()
            weights, places = scores.topk(c["num_experts_per_tok"], -1)
            every = torch.stack([self.mlp(f"{p}experts.{i}.", x) for i in range(logits.shape[-1])], -2)
            of_experts = places[..., None].expand(*places.shape, x.shape[-1])
            result = (weights[..., None] * every.gather(-2, of_experts)).sum(-2)
        chosen = choice.topk(c["num_experts_per_tok"], -1).indices
        counts = torch.nn.functional.one_hot(chosen, logits.shape[-1]).double().sum((1, 2))
        self.noted.append((scores / scores.sum(-1, keepdim=True), counts))
        return result

    def layer(self, index, x):
        if "first_k_dense_replace" in self.config:
            return super().layer(index, x)
        self.config["first_k_dense_replace"] = 0
        result = super().layer(index, x)
        del self.config["first_k_dense_replace"]
        return result


def balance(p, counts, top_k, kind, sequences, copies):
    """Mean over micro-batches and replicas of one layer's loss. p (samples, tokens, experts), counts
    (samples, experts)."""
    samples, tokens, experts = p.shape
    p = p.unflatten(0, (-1, copies, sequences))
    counts = counts.unflatten(0, (-1, copies, sequences))
    if kind == "seq_aux_loss":
        parts = experts * (counts / (top_k * tokens) * p.mean(-2)).sum(-1)
        return parts.mean()
    probability = p.mean((2, 3))
    load = counts.sum(2) / (top_k * tokens * sequences)
    if kind == "global_aux_loss":
        seen = torch.arange(1, len(load) + 1)[:, None]
        load = (load.mean(1).cumsum(0) / seen)[:, None]
    return (experts * (load * probability).sum(-1)).mean()


def make(folder, case, name, kind, sequences, copies):
    source = folder / "families" / name
    target = folder / "balance" / case
    target.mkdir(parents=True, exist_ok=True)
    config = json.loads((source / "config.json").read_text())
    tokens = torch.from_numpy(load(source / "tokens.npy")).long()
    model = Balanced(config, load_file(source / "model.safetensors"))
    loss = model.losses(samples_of(tokens, 0))[0]
    known = json.loads((source / "expected.json").read_text())["loss"]
    assert abs(loss.item() / known - 1) < 1e-6, (name, loss.item(), known)
    top_k = config["num_experts_per_tok"]
    assert all(counts.sum() == SAMPLES * p.shape[1] * top_k for p, counts in model.noted)
    even = sum(balance(p, counts, top_k, kind, sequences, copies) for p, counts in model.noted)
    (loss + COEFFICIENT * even).backward()
    wanted = lambda tensor: tensor.endswith("mlp.gate.weight") or "embed_tokens" in tensor
    gradients = {t: w.grad.float() for t, w in model.w.items() if w.grad is not None and wanted(t)}
    save_file(gradients, target / "gradients.safetensors")
    expected = {
        "model": name,
        "moe_router_load_balancing_type": kind,
        "moe_aux_loss_coeff": COEFFICIENT,
        "micro_batch_size": sequences,
        "copies": copies,
        "loss": loss.item(),
        "balance": even.item(),
        "versions": {"torch": torch.__version__},
    }
    (target / "expected.json").write_text(json.dumps(expected, indent=2) + "\n")


def main():
    torch.set_num_threads(1)
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    for case, rest in CASES.items():
        make(folder, case, *rest)


if __name__ == "__main__":
    main()
