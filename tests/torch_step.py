#!/usr/bin/env python3
"""Compares plumbline's training step with PyTorch eager's: same model, micro-batches, optimizer.

  tests/torch_step.py PLUMBLINE CONFIG.yaml [--precision fp32|bf16] [--times N]

Both use one thread. CONFIG is a plumbline configuration of one rank with a qwen2 model written out in it.
Both programs run alternately, N times, each with one step of warm-up. Prints the seconds of every step, both
medians, and PyTorch's divided by plumbline's. In bf16 PyTorch keeps fp32 master weights, as plumbline does.
Needs torch, transformers and yaml; says so and ends with 0 if one is missing. Run it on an idle machine.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time


def plumbline_step(program, config, precision):
    command = [program, "run", config, "--precision", precision, "--steps", "1", "--warmup-steps", "1",
               "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True,
                          env=dict(os.environ, OMP_NUM_THREADS="1"))
    return json.loads(done.stdout)["measurement"]["time"]["step_s"]


class TorchStep:
    """Qwen2 without dropout and AdamW, as plumbline's cell has them."""

    def __init__(self, config, precision):
        import torch
        from transformers import Qwen2Config, Qwen2ForCausalLM
        torch.set_num_threads(1)
        torch.manual_seed(1)
        self.torch = torch
        self.length = config["seq_length"]
        self.rows = config["micro_batch_size"]
        self.micro_batches = config["global_batch_size"] // self.rows
        self.vocabulary = config["model"]["vocab_size"]
        self.model = Qwen2ForCausalLM(Qwen2Config(**config["model"], use_cache=False))
        self.masters = None
        if precision == "bf16":
            self.model = self.model.to(torch.bfloat16)
            self.masters = [w.detach().float().clone().requires_grad_() for w in self.model.parameters()]
        self.updated = self.masters or list(self.model.parameters())
        self.optimizer = torch.optim.AdamW(self.updated, lr=1e-4)

    def run(self):
        torch = self.torch
        tokens = torch.randint(0, self.vocabulary, (self.micro_batches, self.rows, self.length + 1))
        start = time.perf_counter()
        for batch in tokens:
            logits = self.model(batch[:, :-1]).logits
            loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), batch[:, 1:].flatten())
            (loss / self.micro_batches).backward()
        if self.masters:
            for master, weight in zip(self.masters, self.model.parameters()):
                master.grad, weight.grad = weight.grad.float(), None
        torch.nn.utils.clip_grad_norm_(self.updated, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.masters:
            with torch.no_grad():
                for master, weight in zip(self.masters, self.model.parameters()):
                    weight.copy_(master)
        return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plumbline")
    parser.add_argument("config")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--times", type=int, default=3)
    arguments = parser.parse_args()
    try:
        import yaml
        with open(arguments.config, encoding="utf-8") as file:
            config = yaml.safe_load(file)
        torch_step = TorchStep(config, arguments.precision)
    except ImportError as error:
        print(f"skipped: {error.name} is not installed; install torch, transformers and pyyaml")
        return 0
    torch_step.run()
    own, torch = [], []
    for _ in range(arguments.times):
        own.append(plumbline_step(arguments.plumbline, arguments.config, arguments.precision))
        torch.append(torch_step.run())
        print(f"plumbline {own[-1]:.3f} s, PyTorch {torch[-1]:.3f} s", flush=True)
    medians = statistics.median(own), statistics.median(torch)
    print(f"medians: plumbline {medians[0]:.3f} s, PyTorch {medians[1]:.3f} s, ratio "
          f"{medians[1] / medians[0]:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
