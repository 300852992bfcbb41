#!/usr/bin/env python3
"""Kills a run while it writes a checkpoint, again and again: is anything lost, unreadable or left over?

    tests/recovery/kill_while_writing.py PROGRAM [TRIALS] [SEED]

A run of two ranks saves after every step, by turns at once and alongside the next steps. A moment after a
checkpoint has begun, a rank or the whole program gets SIGKILL. Every complete checkpoint must then read as it
was written, and the newest one must not be older than before. The unfinished one must be gone: at once when
the program lives, else with the next run.
"""
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

import support


def wait_until(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"after {seconds} s still not: {what}")
        time.sleep(0.002)


def trial(program, folder, number, draw):
    saved = folder / "saved"
    before = support.complete(saved)
    arguments = [program, "run", "run.yaml", "--quiet", "--pp", "2", "--steps", "1000000", "--checkpoint-dir",
                 "saved",
                 "--checkpoint-interval", "1"]
    arguments += ["--resume"] if before else []
    arguments += ["--async-save"] if number % 2 else []
    with open(folder / "said.txt", "w") as said:
        run = subprocess.Popen(arguments, cwd=folder, env=support.environment(folder), stdout=said,
                               stderr=said)
    newest = max(before, default=0)
    wait_until(lambda: run.poll() is not None or max(support.complete(saved), default=0) > newest, 60,
               "a checkpoint is complete")
    wait_until(lambda: run.poll() is not None or support.unfinished(saved), 60, "another one is begun")
    if run.poll() is not None:
        raise SystemExit(f"the run ended by itself: {(folder / 'said.txt').read_text()[-500:]}")
    time.sleep(draw.uniform(0, 0.02))
    seen = max(support.complete(saved))
    whole = draw.random() < 0.3
    if whole:
        run.kill()
    else:
        ranks = support.ranks_of(folder)
        os.kill(ranks[draw.choice(sorted(ranks))], signal.SIGKILL)
    run.wait(60)
    wait_until(lambda: not support.ranks_of(folder), 60, "all ranks are gone")
    problems = support.unreadable(saved)
    if max(support.complete(saved), default=0) < seen:
        problems.append(f"step {seen} was complete and is lost")
    if not whole and support.unfinished(saved):
        problems.append(f"left over: {support.unfinished(saved)}")
    return problems


def main():
    program = Path(sys.argv[1]).resolve()
    trials = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    draw = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    with tempfile.TemporaryDirectory(prefix="plumbline-kills-") as name:
        folder = Path(name)
        support.write_config(folder / "run.yaml", vocabulary=2048)
        problems = []
        for number in range(trials):
            found = trial(program, folder, number, draw)
            problems += [f"trial {number}: {line}" for line in found]
        # The final resumed run cleans up, reads the newest one, and is whole.
        last = max(support.complete(folder / "saved"))
        record = support.measured(program, folder,
                                  ["--pp", "2", "--steps", str(last + 2), "--checkpoint-dir", "saved",
                                                    "--checkpoint-interval", "1", "--resume"])
        if record["measurement"]["checkpoints"]["resumed_step"] != last:
            problems.append(f"went on from step {record['measurement']['checkpoints']['resumed_step']}, not "
                            f"{last}")
        problems += [f"left over at the end: {entry}" for entry in support.unfinished(folder / "saved")]
        problems += [f"left over at the end: {entry}" for entry in (folder / "tmp").iterdir()]
    for line in problems:
        print(line)
    print(f"{trials} kills while a checkpoint was written, {last} steps: {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
