#!/usr/bin/env python3
"""Injects known causes of lost time into training steps and checks that `plumbline diagnose` names them.

  tests/bench/diagnose/injected_causes.py PLUMBLINE [--cases N] [--seed S] [--keep DIR]

Two processes of one thread train a small model with DistributedDataParallel over gloo under PyTorch's
profiler. Each case has one cause; its seconds are measured around it with a clock. At least 90 % of them must
be named with the right category and rank. Without a cause, nothing above 3 % of the step but exposed
communication may be named. Needs torch; says so and ends with 0 without it. Run it on an idle machine.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time

KINDS = ["none", "sleep", "loader", "copy", "throttle", "reduction", "barrier"]
CATEGORY = {"sleep": ["host"], "loader": ["data_loading"], "copy": ["other_operators"],
            "throttle": ["products", "other_operators", "optimizer", "attention"],
            "reduction": ["exposed_data"], "barrier": ["exposed_data"]}
WIDTH, LAYERS, ROWS, STEPS = 1024, 6, 256, 5


def train(case, rank, folder):
    """One rank of a case: writes its trace, and the seconds of its cause in each step."""
    import torch
    import torch.distributed as dist
    from torch.profiler import ProfilerActivity, profile, schedule

    torch.set_num_threads(1)
    torch.manual_seed(case["seed"])
    dist.init_process_group("gloo", init_method="file://" + os.path.join(folder, "meet"), rank=rank,
                            world_size=2)
    kind, hit = case["kind"], rank == case["rank"]
    spent = []

    class Timed:
        """Adds the time of its block to the cause's."""
        def __enter__(self):
            self.begin = time.perf_counter()

        def __exit__(self, *_):
            spent[-1] += time.perf_counter() - self.begin

    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return 1000

        def __getitem__(self, index):
            if kind == "loader" and hit and spent:
                with Timed():
                    time.sleep(case["seconds"] / ROWS)
            return self.row

        row = torch.randn(WIDTH)

    class Layer(torch.nn.Module):
        def __init__(self, place):
            super().__init__()
            self.linear, self.place = torch.nn.Linear(WIDTH, WIDTH), place

        def forward(self, x):
            x = torch.nn.functional.gelu(self.linear(x))
            if kind == "sleep" and hit and self.place == case["layer"]:
                with Timed():
                    time.sleep(case["seconds"])
            if kind == "copy" and hit and self.place == case["layer"]:
                with Timed():
                    end = time.perf_counter() + case["seconds"]
                    while time.perf_counter() < end:
                        case["big"].clone()
            if kind == "barrier":
                with Timed():
                    dist.barrier()
            return x

    case["big"] = torch.zeros(1 << 20)
    model = torch.nn.Sequential(*[Layer(i) for i in range(LAYERS)])
    if kind == "reduction":
        weights = list(model.parameters())
    else:
        model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    loader = torch.utils.data.DataLoader(Data(), batch_size=ROWS, sampler=range(ROWS))
    throttle = None
    if kind == "throttle" and hit:
        code = ("import os,signal,sys,time\npid,share=int(sys.argv[1]),float(sys.argv[2])\n"
                "while os.getppid()==pid:\n  os.kill(pid,signal.SIGSTOP); time.sleep(.01*share)\n"
                "  os.kill(pid,signal.SIGCONT); time.sleep(.01*(1-share))\n")
        throttle = subprocess.Popen([sys.executable, "-c", code, str(os.getpid()), "0.4"])
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True,
                 schedule=schedule(wait=1, warmup=1, active=STEPS)) as profiler:
        for _ in range(STEPS + 2):
            dist.barrier()
            spent.append(0.0)
            for batch in loader:
                loss = model(batch).square().mean()
                loss.backward()
                if kind == "reduction":
                    with Timed():
                        for weight in weights:
                            dist.all_reduce(weight.grad)
                optimizer.step()
                optimizer.zero_grad()
            profiler.step()
    if throttle:
        throttle.kill()
        throttle.wait()
    profiler.export_chrome_trace(os.path.join(folder, "rank%d.json" % rank))
    with open(os.path.join(folder, "spent%d.json" % rank), "w", encoding="utf-8") as file:
        json.dump(spent[2:], file)
    dist.destroy_process_group()


def run_case(case, folder):
    ranks = [subprocess.Popen([sys.executable, os.path.abspath(__file__), "--rank", str(rank), "--folder", folder,
                               "--case", json.dumps(case)], env={**os.environ, "OMP_NUM_THREADS": "1"})
             for rank in (0, 1)]
    for rank in ranks:
        if rank.wait() != 0:
            raise SystemExit("a rank of case %s failed" % case)


def judge(case, folder, program):
    """(verdict, text) of one case."""
    traces = [os.path.join(folder, "rank%d.json" % rank) for rank in (0, 1)]
    said = json.loads(subprocess.run([program, "diagnose", *traces, "--json"], check=True, capture_output=True,
                                     text=True).stdout)
    sums = [abs(sum(rank["time"].values()) - rank["step_s"]) / rank["step_s"] for rank in said["ranks"]]
    if max(sums) > 1e-3:
        return False, "categories differ from the step by %.3g" % max(sums)
    causes = [(c["category"], c["rank"], round(c["seconds"], 4)) for c in said["causes"]]
    text = "step %.3f s, causes %s" % (said["step_s"], causes)
    if case["kind"] == "none":
        return not [c for c in causes if not c[0].startswith("exposed")], text
    every = case["kind"] in ("reduction", "barrier")
    rank = said["ranks"][0 if every else case["rank"]]
    with open(os.path.join(folder, "spent%d.json" % rank["rank"]), encoding="utf-8") as file:
        injected = json.load(file)[said["step"] - 2]
    if case["kind"] == "throttle":
        times = [sum(each["time"][key + "_s"] for key in CATEGORY["throttle"]) for each in said["ranks"]]
        injected = times[case["rank"]] - times[1 - case["rank"]]
    fitting = [c for c in causes if c[0] in CATEGORY[case["kind"]] and (every or c[1] == case["rank"])]
    named = sum(c[2] for c in fitting)
    if every and fitting:  # of a cause on all ranks, waits for the later one are that one's
        named = rank["time"]["exposed_data_s"]
    good = named >= 0.9 * injected > 0
    return good, "%.4f s injected, %.4f s named; %s" % (injected, named, text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plumbline", nargs="?")
    parser.add_argument("--cases", type=int, default=14)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", metavar="DIR", help="keep the traces")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        train(json.loads(options.case), options.rank, options.folder)
        return 0
    if not options.plumbline:
        parser.error("PLUMBLINE is missing")
    try:
        import torch  # noqa: F401
    except ImportError as error:
        print("skipped: %s is not installed; install torch" % error.name)
        return 0
    draws = random.Random(options.seed)
    bad = 0
    for number in range(options.cases):
        case = {"kind": KINDS[number % len(KINDS)], "seed": draws.randrange(1 << 30), "rank": draws.randrange(2),
                "layer": draws.randrange(LAYERS), "seconds": draws.uniform(0.05, 0.15)}
        with tempfile.TemporaryDirectory() as place:
            folder = place
            if options.keep:
                folder = os.path.join(options.keep, "%02d_%s" % (number, case["kind"]))
                os.makedirs(folder)
            run_case(case, folder)
            good, text = judge(case, folder, options.plumbline)
        bad += not good
        print("%s %-9s rank %d: %s" % ("ok  " if good else "MISS", case["kind"], case["rank"], text), flush=True)
    print("%d passed, %d failed" % (options.cases - bad, bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
