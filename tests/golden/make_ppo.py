"""Makes the golden files of PPO: two steps of four updates of actor and critic, in double precision.

    python make_ppo.py [FOLDER]        needs torch, transformers, safetensors

FOLDER/ppo gets critic.safetensors and reward.safetensors, the scalar heads of a critic and of a reward model
that are else the golden llama, and for sets of keys (CASES) NAME.json and NAME.actor/critic.safetensors:
responses (make_grpo.py's rollout), their log-probabilities and values, returns and advantages
(arXiv:1506.02438 eq. 16), whitened over the step's tokens, losses of actor (arXiv:1707.06347 eq. 7) and
critic (half the squared error, clipped around the old value) with plain gradient descent, and the last
gradients.
"""

import copy
import json
import pathlib
import sys

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

import torch
import transformers
from make_grpo import SEED, log_probabilities, rollout
from safetensors.torch import save_file

PROMPTS, BATCH, EPOCHS, STEPS = 8, 4, 2, 2
CASES = {
    "kl_in_reward": {"clip": (0.2, 0.2), "kl": 1, "kl_coef": 0.3, "in_reward": True, "gamma": 1.0,
                     "lambda": 0.95, "value_clip": 0.05, "entropy": 0.0, "lr": 0.1, "by": "token"},
    "kl_in_loss": {"clip": (0.1, 0.2), "kl": 3, "kl_coef": 0.1, "in_reward": False, "gamma": 0.9,
                   "lambda": 0.8, "value_clip": 0.5, "entropy": 0.02, "lr": 0.1, "by": "sequence"},
    "reward_model": {"clip": (0.2, 0.2), "kl": 2, "kl_coef": 0.1, "in_reward": True, "gamma": 1.0,
                     "lambda": 0.95, "value_clip": 0.5, "entropy": 0.0, "lr": 0.05, "by": "token"},
}


def divergence(kind, log_p, log_reference):
    """Schulman's estimators of KL(p, reference) from draws of p."""
    r = log_reference - log_p
    return {1: -r, 2: r**2 / 2, 3: r.exp() - 1 - r}[kind]


class ScalarModel(torch.nn.Module):
    def __init__(self, trunk, head):
        super().__init__()
        self.model = trunk
        self.score = torch.nn.Linear(head.shape[1], 1, bias=False, dtype=torch.float64)
        self.score.weight = torch.nn.Parameter(head.clone())

    def every_value(self, prompt, response):
        hidden = self.model(torch.tensor([prompt + response]), use_cache=False).last_hidden_state[0]
        return self.score(hidden[len(prompt) - 1 :]).squeeze(1)

    def forward(self, prompt, response):
        """Value before every id of the response."""
        return self.every_value(prompt, response)[:-1]


def generalised_advantages(rewards, values, gamma, lam):
    """Sums of discounted temporal differences, term by term; the value behind the end is 0."""
    following = torch.cat([values[1:], torch.zeros(1, dtype=torch.float64)])
    delta = rewards + gamma * following - values
    count = len(delta)
    return torch.stack([sum((gamma * lam) ** k * delta[t + k] for k in range(count - t)) for t in range(count)])


def weights_of(case, batch):
    tokens = sum(len(each["response"]) for each in batch)
    return [1 / tokens if case["by"] == "token" else 1 / (len(batch) * len(each["response"])) for each in batch]


def actor_loss(model, case, batch):
    total = 0
    for each, weight in zip(batch, weights_of(case, batch), strict=True):
        log_p, entropy = log_probabilities(model, each["prompt"], each["response"])
        ratio = (log_p - each["old"]).exp()
        low, high = case["clip"]
        surrogate = torch.min(ratio * each["advantages"], ratio.clamp(1 - low, 1 + high) * each["advantages"])
        loss = -surrogate - case["entropy"] * entropy
        if not case["in_reward"]:
            loss = loss + case["kl_coef"] * divergence(case["kl"], log_p, each["reference"])
        total = total + weight * loss.sum()
    return total


def critic_loss(critic, case, batch):
    total = 0
    for each, weight in zip(batch, weights_of(case, batch), strict=True):
        value = critic(each["prompt"], each["response"])
        old, clip = each["values"], case["value_clip"]
        near = torch.min(torch.max(value, old - clip), old + clip)
        total = total + weight * 0.5 * torch.max((value - each["returns"]) ** 2, (near - each["returns"]) ** 2).sum()
    return total


def descend(model, loss, rate):
    """A step along the gradient. Returns the loss, the gradient's length, and the gradients."""
    model.zero_grad()
    loss.backward()
    gradients = {key: p.grad.float().clone() for key, p in model.named_parameters()}
    with torch.no_grad():
        for p in model.parameters():
            p -= rate * p.grad
    return loss.item(), sum((g.double() ** 2).sum() for g in gradients.values()).sqrt().item(), gradients


def score(step, case, actor, reference, critic, reward):
    vocab = actor.config.vocab_size
    with torch.no_grad():
        samples = [{"prompt": p, "response": r, "old": log_probabilities(actor, p, r)[0],
                    "reference": log_probabilities(reference, p, r)[0], "values": critic(p, r)}
                   for p, r in rollout(actor, vocab, PROMPTS, 1, SEED + step)]
    for each in samples:
        each["kl"] = divergence(case["kl"], each["old"], each["reference"])
        rewards = -case["kl_coef"] * each["kl"] if case["in_reward"] else torch.zeros_like(each["kl"])
        with torch.no_grad():
            rewards[-1] += reward(each["prompt"], each["response"])
        each["raw"] = generalised_advantages(rewards, each["values"], case["gamma"], case["lambda"])
        each["returns"] = each["raw"] + each["values"]
    every = torch.cat([each["raw"] for each in samples])
    for each in samples:
        each["advantages"] = (each["raw"] - every.mean()) / (every.var() + 1e-8).sqrt()
    return samples


def make(name, folder, heads):
    case = CASES[name]
    actor = transformers.AutoModelForCausalLM.from_pretrained(folder / "llama", dtype=torch.float64,
                                                              attn_implementation="eager")
    reference = copy.deepcopy(actor)
    critic = ScalarModel(copy.deepcopy(actor.model), heads["critic"])
    model = ScalarModel(copy.deepcopy(actor.model), heads["reward"])
    half = actor.config.vocab_size // 2

    def reward(prompt, response):
        if name == "reward_model":
            return model.every_value(prompt, response)[-1]
        return sum(i < half for i in response) / len(response)

    made = {"versions": {"torch": torch.__version__, "transformers": transformers.__version__}, "steps": []}
    for step in range(STEPS):
        samples = score(step, case, actor, reference, critic, reward)
        found = {"actor": [], "critic": []}
        for update in range(EPOCHS * PROMPTS // BATCH):
            first = update * BATCH % PROMPTS
            batch = samples[first : first + BATCH]
            found["critic"].append(descend(critic, critic_loss(critic, case, batch), case["lr"]))
            found["actor"].append(descend(actor, actor_loss(actor, case, batch), case["lr"]))
        returns = torch.cat([each["returns"] for each in samples])
        errors = returns - torch.cat([each["values"] for each in samples])
        made["steps"].append({
            "responses": [each["response"] for each in samples],
            **{key: [each[of].tolist() for each in samples]
               for key, of in (("log_probabilities", "old"), ("reference", "reference"), ("values", "values"),
                               ("returns", "returns"), ("advantages", "advantages"))},
            "kl": torch.cat([each["kl"] for each in samples]).mean().item(),
            "explained_variance": (1 - errors.var() / returns.var()).item(),
            **{f"{model}_losses": [loss for loss, _, _ in found[model]] for model in found},
            **{f"{model}_gradient_norm": found[model][-1][1] for model in found},
        })
        print(name, step, {k: v for k, v in made["steps"][-1].items() if isinstance(v, float) or "losses" in k})
    for model in found:
        save_file(found[model][-1][2], folder / "ppo" / f"{name}.{model}.safetensors")
    (folder / "ppo" / f"{name}.json").write_text(json.dumps(made, indent=1) + "\n")


def main():
    torch.set_num_threads(1)
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent
    (folder / "ppo").mkdir(exist_ok=True)
    hidden = json.loads((folder / "llama" / "config.json").read_text())["hidden_size"]
    heads = {}
    for model, seed in (("critic", 7), ("reward", 8)):
        head = 0.1 * torch.randn(1, hidden, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        head = head.float()  # as it is in the file
        save_file({"score.weight": head}, folder / "ppo" / f"{model}.safetensors")
        heads[model] = head.double()
    for name in CASES:
        make(name, folder, heads)


if __name__ == "__main__":
    main()
