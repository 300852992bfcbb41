#!/usr/bin/env python3
"""Does anything get lost, and does anything stay behind? Injects faults into the program from outside.

    tests/fault_campaign.py [PROGRAM] [--signals N] [--environment N] [--files N] [--flags N]
                            [--conversions N] [--links N] [--keys N] [--seed S]
                            [--seconds LIMIT] [--short]

PROGRAM defaults to build/release/bench/plumbline. A full campaign, hours on two processors, is
    tests/fault_campaign.py --signals 500 --environment 500 --files 9000 --flags 3000 --conversions 1000 \\
                            --links 500 --keys 3000
--short is a minute of everything. No injection starts after LIMIT seconds. The same seed makes the same
injections, though a signal never comes at the same instant twice. Injected are:
  signals      five kinds of targets at a random moment of a small matrix: plumbline, its supervisor, mpirun,
               a rank, all of them at once
  environment  full disks, limits, descriptors that are closed or break, a results folder that goes away,
               a terminal that goes away, variables that a shell may hold
  files        damaged configurations, matrices, profiles, records, costs, schedules, models and weights
  flags        random combinations of options
  conversions  conversions of checkpoints: kills at any instant, full disks, damaged or missing files
  links        symbolic links and pipes in a results folder, as another user could put them there
  keys         a key in a random configuration: it changes the result, is refused, or is named as without
               effect
After each: no finished row is lost, nothing hangs, and no process or folder stays behind once the next
command has run. Nothing ends by a signal except its target, a refusal is one line, and the output has no
terminal escapes. Prints a table; findings follow, one line each, and make the exit status 1. Everything
happens in a temporary folder.
"""
import argparse
import random
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True  # nothing is written among the sources
sys.path.insert(0, str(Path(__file__).resolve().parent))
from campaign import conversions, environment, files, flags, keys, links, signals  # noqa: E402
from campaign.bench import Bench  # noqa: E402

KINDS = {"signals": signals.inject, "environment": environment.inject, "files": files.inject,
         "flags": flags.inject,
         "conversions": conversions.inject, "links": links.inject,
         "keys": keys.inject}
SHORT = {"signals": 12, "environment": 20, "files": 150, "flags": 60, "conversions": 15, "links": 10,
         "keys": 100}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", nargs="?", default="build/release/bench/plumbline")
    for kind in KINDS:
        parser.add_argument("--" + kind, type=int, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, metavar="LIMIT")
    parser.add_argument("--short", action="store_true")
    options = parser.parse_args()
    asked = {kind: getattr(options, kind) for kind in KINDS}
    if all(count is None for count in asked.values()):
        asked = SHORT
    limit = options.seconds or (60 if options.short else float("inf"))

    findings = []
    started = time.monotonic()
    print(f"{'kind':<12} {'injected':>9} {'findings':>9} {'seconds':>9}")
    with Bench(options.program) as bench:
        shares = sum(1 for count in asked.values() if count)
        for kind, count in asked.items():
            begun, done, before = time.monotonic(), 0, len(findings)
            # Each kind has its share of the limit, so that the first does not take all of it.
            until = begun + (started + limit - begun) / max(shares, 1)
            shares -= 1 if count else 0
            for number in range(count or 0):
                if time.monotonic() > until:
                    break
                chance = random.Random(f"{options.seed}/{kind}/{number}")
                findings += [f"{kind} {number}: {finding}" for finding in KINDS[kind](bench, chance)]
                done += 1
            print(f"{kind:<12} {done:>9} {len(findings) - before:>9} {time.monotonic() - begun:>9.0f}",
                  flush=True)
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
