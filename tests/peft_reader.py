#!/usr/bin/env python3
"""Reads the adapters that plumbline saves with PEFT, and compares with the merged model that it saves.

  tests/peft_reader.py PLUMBLINE

Trains golden/lora for two steps. Logits of PEFT's model (the golden one with the saved adapters) are those of
transformers with the merged weights, and the log-probabilities of `plumbline generate`, all to 1e-5; without
adapters they differ. Needs torch, transformers and peft; says so and ends with 0 if one is missing.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

GOLDEN = pathlib.Path(__file__).parent / "golden"
NEW_TOKENS = 4
TOLERANCE = 1e-5


def say(program, *arguments):
    return subprocess.run([program, *arguments], stdout=subprocess.PIPE, check=True, text=True).stdout


def generated(program, folder, prompt, scratch):
    """plumbline's greedy ids after `prompt`, and their log-probabilities."""
    prompts = scratch / "prompts.jsonl"
    prompts.write_text(json.dumps(prompt) + "\n")
    said = say(program, "generate", "--model", str(folder), "--weights", str(folder),
               "--prompts", str(prompts), "--seq-length", "16", "--max-new-tokens", str(NEW_TOKENS),
               "--precision", "fp32", "--make-vocab-size-divisible-by", "1",
               "--micro-batch-size", "1", "--json")
    sequence = json.loads(said)["sequences"][0]
    return sequence["ids"], sequence["log_probabilities"]


def largest_difference(program, name, base, scratch):
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    def load(folder):
        options = {"dtype": torch.float32, "attn_implementation": "eager"}
        return AutoModelForCausalLM.from_pretrained(folder, **options).eval()

    saved = scratch / name
    config = GOLDEN / "lora" / name / "run.yaml"
    say(program, "run", str(config), "--steps", "2", "--save-weights", str(saved))
    prompt = [5, 17, 3, 42, 8, 29, 11, 2]
    ids, log_probabilities = generated(program, saved / "merged", prompt, scratch)
    tokens = torch.tensor([prompt + ids])
    with torch.no_grad():
        plain = load(GOLDEN / base)(tokens).logits
        adapted = PeftModel.from_pretrained(load(GOLDEN / base), saved).eval()(tokens).logits
        merged = load(saved / "merged")(tokens).logits
    if (adapted - plain).abs().max() < 1e-2:
        sys.exit(f"{name}: adapters without effect")
    of_peft = adapted.log_softmax(-1)[0, len(prompt) - 1:-1]
    chosen = of_peft[range(NEW_TOKENS), ids]
    differences = [(adapted - merged).abs().max().item(),
                   (chosen - torch.tensor(log_probabilities)).abs().max().item()]
    if of_peft.argmax(-1).tolist() != ids:
        sys.exit(f"{name}: ids {of_peft.argmax(-1).tolist()} by PEFT, {ids} by plumbline")
    return differences


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plumbline")
    program = parser.parse_args().plumbline
    try:
        import peft
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as error:
        print(f"skipped: {error.name} is not installed; install torch, transformers and peft")
        return 0
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name, base in (("llama", "llama"), ("llama_all", "llama"), ("llama_canonical", "llama"),
                           ("gpt2", "gpt2")):
            logits, chosen = largest_difference(program, name, base, pathlib.Path(scratch))
            print(f"{name}: logits of PEFT {peft.__version__} and of merged weights differ by {logits:.1e}, "
                  f"log-probabilities of plumbline generate by {chosen:.1e}")
            wrong += max(logits, chosen) > TOLERANCE
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
