"""Makes the golden files of GRPO: four updates of one step, from the papers in double precision.

    python make_grpo.py [FOLDER]        needs torch, transformers, safetensors

FOLDER/grpo gets, for two sets of keys (CASES), NAME.json and NAME.safetensors: responses that the golden
llama draws at temperature 1 with the random numbers of bench/training/generate (Philox4x32-10), their
log-probabilities, rewards, advantages (arXiv:2402.03300 section 4.1.2), the loss of every update
(arXiv:1707.06347 eq. 7 with KL and entropy) with plain gradient descent, and the first and last gradients.
"""

import json
import pathlib
import sys

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

import torch
import transformers
from safetensors.torch import save_file

PROMPTS, GROUP, PROMPT_LENGTH, NEW, BATCH, EPOCHS, SEED = 4, 4, 6, 8, 8, 2, 1234
END_IDS = list(range(100, 117))
EPSILON = 1e-6
CASES = {
    "token_mean": {"clip": (0.1, 0.2), "kl": 3, "kl_coef": 0.05, "entropy": 0.02, "lr": 0.1},
    "sequence_mean": {"clip": (0.2, 0.28), "kl": 2, "kl_coef": 0.1, "entropy": 0.0, "lr": 0.1},
}
MARGIN = 1e-5  # between a draw and the next token's range


def philox(counter, key):
    """Philox4x32-10 (doi:10.1145/2063384.2063405)."""
    x, k = list(counter), list(key)
    for _ in range(10):
        a, b = x[0] * 0xD2511F53, x[2] * 0xCD9E8D57
        x = [(b >> 32) ^ x[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ x[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return x


def words(seed):
    return seed & 0xFFFFFFFF, seed >> 32


def draw(logits, sequence, position, seed):
    """The id whose range of falling probabilities has the random number."""
    first, second, *_ = philox((position, 0, sequence, 0), words(seed))
    number = first * 2.0**-32 + (second >> 11) * 2.0**-53
    order = torch.argsort(logits, descending=True, stable=True)
    reached = torch.cumsum(torch.softmax(logits, -1)[order], 0)
    assert (reached - number).abs().min() > MARGIN, "too near: another SEED"
    return order[int((reached <= number).sum())].item()


def log_probabilities(model, prompt, response):
    """Log-probability of every id, and the entropy at its place."""
    logits = model(torch.tensor([prompt + response]), use_cache=False).logits[0, len(prompt) - 1 : -1]
    log_p = torch.log_softmax(logits, -1)
    chosen = log_p.gather(1, torch.tensor(response).unsqueeze(1)).squeeze(1)
    return chosen, -(log_p.exp() * log_p).sum(-1)


def rollout(model, vocab, prompts=PROMPTS, group=GROUP, seed=SEED):
    responses = []
    for sequence in range(prompts * group):
        prompt = [philox((i, sequence // group, 0, 0), words(seed))[0] % vocab for i in range(PROMPT_LENGTH)]
        response = []
        while len(response) < NEW and not (response and response[-1] in END_IDS):
            logits = model(torch.tensor([prompt + response]), use_cache=False).logits[0, -1]
            response.append(draw(logits, sequence, len(prompt) + len(response), seed))
        responses.append((prompt, response))
    return responses


def loss_of(model, case, name, batch):
    tokens = sum(len(each["response"]) for each in batch)
    total = 0
    for each in batch:
        log_p, entropy = log_probabilities(model, each["prompt"], each["response"])
        ratio = (log_p - each["old"]).exp()
        low, high = case["clip"]
        surrogate = torch.min(ratio * each["advantage"], ratio.clamp(1 - low, 1 + high) * each["advantage"])
        r = each["old"] - log_p  # the reference is the actor of the first update
        kl = {1: -r, 2: r**2 / 2, 3: r.exp() - 1 - r}[case["kl"]]
        loss = (-surrogate + case["kl_coef"] * kl - case["entropy"] * entropy).sum()
        weight = tokens if name == "token_mean" else len(batch) * len(each["response"])
        total = total + loss / weight
    return total


def make(name, folder):
    case = CASES[name]
    model = transformers.AutoModelForCausalLM.from_pretrained(folder / "llama", dtype=torch.float64,
                                                              attn_implementation="eager")
    vocab = model.config.vocab_size
    with torch.no_grad():
        samples = [{"prompt": p, "response": r, "old": log_probabilities(model, p, r)[0]}
                   for p, r in rollout(model, vocab)]
    rewards = torch.tensor([sum(i < vocab // 2 for i in s["response"]) / len(s["response"]) for s in samples],
                           dtype=torch.float64)
    groups = rewards.view(PROMPTS, GROUP)
    advantages = (groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True) + EPSILON)
    for sample, advantage in zip(samples, advantages.flatten(), strict=True):
        sample["advantage"] = advantage
    losses, norms, gradients = [], [], {}
    updates = EPOCHS * len(samples) // BATCH
    for update in range(updates):
        first = update * BATCH % len(samples)
        model.zero_grad()
        loss = loss_of(model, case, name, samples[first : first + BATCH])
        loss.backward()
        losses.append(loss.item())
        norms.append(sum((p.grad**2).sum() for p in model.parameters()).sqrt().item())
        if update == updates - 1:
            gradients = {key: p.grad.float() for key, p in model.named_parameters()}
        with torch.no_grad():
            for p in model.parameters():
                p -= case["lr"] * p.grad
    save_file(gradients, folder / "grpo" / f"{name}.safetensors")
    made = {
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "responses": [s["response"] for s in samples],
        "log_probabilities": [s["old"].tolist() for s in samples],
        "rewards": rewards.tolist(),
        "advantages": advantages.flatten().tolist(),
        "losses": losses,
        "gradient_norms": norms,
    }
    (folder / "grpo" / f"{name}.json").write_text(json.dumps(made, indent=1) + "\n")
    print(name, "lengths", [len(s["response"]) for s in samples], "losses", losses, "norms", norms)


def main():
    torch.set_num_threads(1)
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent
    (folder / "grpo").mkdir(exist_ok=True)
    for name in CASES:
        make(name, folder)


if __name__ == "__main__":
    main()
