"""Makes generation.json: greedy continuations of prompts by transformers' generate, for the golden models.

    python make_generation.py [FOLDER]        needs torch, transformers, safetensors, numpy

FOLDER/generation.json has, for every golden checkpoint that a class of transformers reads, the prompts, the
ids that generate() adds to each alone, and the log-probabilities of these ids.
"""

import json
import pathlib
import sys

import torch
import transformers
from make_families import MODELS
from make_golden import MODELS as GOLDEN

LENGTHS = (3, 8, 1, 5)  # one of them longer than the windows of 5
NEW_TOKENS = 8


def prompts_of(vocab, seed):
    return [[(seed * 31 + i * 17 + length * 7) % vocab for i in range(length)] for length in LENGTHS]


def continue_greedily(model, prompt):
    made = model.generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
        generation_config=transformers.GenerationConfig(
            do_sample=False, max_new_tokens=NEW_TOKENS, return_dict_in_generate=True, output_logits=True, pad_token_id=0
        ),
    )
    ids = made.sequences[0, len(prompt) :].tolist()
    scores = [torch.log_softmax(step[0].double(), -1) for step in made.logits]
    return {"ids": ids, "log_probabilities": [score[id_].item() for score, id_ in zip(scores, ids, strict=True)]}


def generations(folder):
    expected = {}
    for name in [*GOLDEN, *(f"families/{each}" for each in MODELS)]:
        place = folder / name
        # transformers 5.24 adds falcon's ALiBi twice in eager attention.
        attention = "sdpa" if "falcon" in name else "eager"
        model = transformers.AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32, attn_implementation=attention)
        model.eval()
        model.generation_config.eos_token_id = None
        prompts = prompts_of(model.config.vocab_size, 1)
        expected[name] = {"prompts": prompts, "continuations": [continue_greedily(model, each) for each in prompts]}
    return expected


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    with torch.no_grad():
        models = generations(folder)
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(model)}" for name, model in models.items())
    (folder / "generation.json").write_text(f'{{"versions": {json.dumps(versions)},\n"models": {{\n{lines}\n}}}}\n')


if __name__ == "__main__":
    main()
