#!/usr/bin/env python3
"""Runs parts of a GPU slot: every line of results is written as it comes and outlives a kill.

    slot.py PROGRAMS OUT --part 1 [--part 2] [--seconds S] [--dry-run]

PROGRAMS holds `plumbline` and `bin/`. A part writes OUT/partN.jsonl (a line per result and per end of a
step), OUT/partN.log (other output) and little more. A step that takes longer than its limit is ended. A part
that has used its budget leaves the rest out and says so; --seconds bounds all parts together. Steps that have
never passed come first; those that passed for the same sources (PROGRAMS/sources) are skipped. PROGRAMS and
OUT have passed.json, and OUT's is kept up to date. --dry-run, on a
machine without a GPU, runs everything before the first kernel and prints the estimated time of each part.
Ends with 1 if a part does not fit, or a step fails.
"""
import argparse
import concurrent.futures
import contextlib
import hashlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time

import steps as table


class Results:
    """One part's two files; each line is in the system's hands before the next is made."""

    def __init__(self, out, part):
        os.makedirs(out, exist_ok=True)
        self.rows = open(f"{out}/part{part}.jsonl", "a", encoding="utf-8", buffering=1)
        self.log = open(f"{out}/part{part}.log", "a", encoding="utf-8", buffering=1)
        self.lock = threading.Lock()

    def row(self, **keys):
        with self.lock:
            self.rows.write(json.dumps(keys) + "\n")

    def close(self):
        self.rows.close()
        self.log.close()

    def say(self, step, line):
        with self.lock:
            self.log.write(f"[{step}] {line}\n")


class Whole:
    """Puts together JSON that a program prints over several lines."""

    def __init__(self, sink):
        self.sink, self.text, self.depth = sink, "", 0

    def feed(self, line):
        """Text that belongs to no object or list of objects: the line, or all lines of what is no JSON."""
        if not self.text and not line.startswith(("{", "[\n", "[{")):
            return line
        self.text += line
        outside = re.sub(r'"(?:\\.|[^"\\])*"', "", line)
        self.depth += outside.count("{") + outside.count("[") - outside.count("}") - outside.count("]")
        return "" if self.depth > 0 else self.end()

    def end(self):
        """The same at the end of the output."""
        text, self.text, self.depth = self.text, "", 0
        try:
            self.sink(json.loads(text))
        except ValueError:
            return text
        return ""


def filled(word, names):
    for name, value in names.items():
        word = word.replace("{" + name + "}", value)
    return word


def words_of(step, names):
    return [filled(word, names) for word in step.command]


def environment_of(step, names):
    """Programs of a bundle start without its wrapper: they find their libraries and those of the host."""
    folders = [f"{os.path.dirname(names['plumbline'])}/{name}" for name in ("lib", "host")]
    searched = [folder for folder in folders
                if os.path.isdir(folder)] + [os.environ.get("LD_LIBRARY_PATH", "")]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(filter(None, searched)),
            "PLUMBLINE_SLOT": str(os.getpid()),
            "PLUMBLINE_GPU_HARDWARE": names["hardware"], **step.environment}


def run_step(step, names, results, limit):
    """Exit code (None: timed out), seconds, and the output besides results. For several processes: the first
    code that is not 0, and the output of all."""
    def run(share):
        return run_process(step, names, results, limit, share)

    with concurrent.futures.ThreadPoolExecutor(step.processes) as pool:
        ends = list(pool.map(run, range(step.processes)))
    return next((code for code, _, _ in ends if code != 0),
                0), max(end[1] for end in ends), sum((end[2] for end in ends), [])


def run_process(step, names, results, limit, share):
    said = []
    begin = time.monotonic()
    environment = environment_of(step, names)
    if step.processes > 1:
        environment |= {"GTEST_TOTAL_SHARDS": str(step.processes), "GTEST_SHARD_INDEX": str(share)}
    # Errors apart from output: a message in the middle of a record would spoil it.
    process = subprocess.Popen(words_of(step, names), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True,
                               errors="replace", start_new_session=True, env=environment)

    def say(text):
        for line in text.splitlines():
            said.append(line)
            results.say(step.name, line)

    def read_output():
        whole = Whole(lambda row: results.row(step=step.name, result=row))
        for line in process.stdout:
            say(whole.feed(line))
        say(whole.end())

    def read_errors():
        for line in process.stderr:
            say(line)

    readers = [threading.Thread(target=read, daemon=True) for read in (read_output, read_errors)]
    for reader in readers:
        reader.start()
    code = None
    try:
        code = process.wait(limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for reader, stream in zip(readers, (process.stdout, process.stderr)):
        reader.join(10)
        if not reader.is_alive():
            stream.close()
    return code, time.monotonic() - begin, said


def predicted_seconds(step, names):
    """Seconds of the training steps by the prediction; 0 for a step without any."""
    if not step.config or not step.config["steps"]:
        return 0.0
    done = subprocess.run([names["plumbline"], "predict", names["config"], "--json"], capture_output=True,
                          text=True,
                          timeout=120, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"predict {step.name}: {done.stderr.strip()}")
    step_seconds = json.loads(done.stdout)["prediction"]["time"]["step_s"]
    return step_seconds * (step.config["steps"] + step.config["warmup_steps"])


def names_for(step, options):
    names = {"plumbline": f"{options.programs}/plumbline", "bin": f"{options.programs}/bin",
             "out": options.out,
             "here": os.path.dirname(os.path.abspath(__file__)), "python": sys.executable, "config": "",
             "hardware": options.hardware}
    if step.config:
        names["config"] = f"{options.out}/config.yaml"
        with open(names["config"], "w", encoding="utf-8") as file:
            json.dump({**step.config, "hardware": options.hardware}, file)
    return names


def text_of(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


class Passed:
    """Steps that have passed, each with a hash of its sources and of what it ran."""

    def __init__(self, options):
        self.path = f"{options.out}/passed.json"
        self.sources = text_of(f"{options.programs}/sources")
        self.known = {}
        for path in (f"{options.programs}/passed.json", self.path):
            self.known.update(json.loads(text_of(path) or "{}"))

    def key(self, step):
        ran = json.dumps([self.sources, step.command, step.config, step.environment], sort_keys=True)
        return hashlib.sha256(ran.encode()).hexdigest()

    def has(self, step):
        return bool(self.sources) and self.known.get(step.name) == self.key(step)

    def note(self, step):
        self.known[step.name] = self.key(step)
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            json.dump(self.known, file, indent=1)
        os.replace(self.path + ".new", self.path)

    def in_order(self, listed):
        """Never passed before passed; steps that need a file of another stay behind them."""
        return sorted(listed, key=lambda step: (bool(step.needs), step.name in self.known))


def card_found():
    """nvidia-smi's name of the first GPU, or ""."""
    try:
        done = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
                              capture_output=True, text=True,
                              timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return (done.stdout.splitlines() or [""])[0].strip()


def run_part(part, options):
    """The names of the steps that failed."""
    with contextlib.closing(Results(options.out, part)) as results:
        return run_steps(part, options, results)


def run_steps(part, options, results):
    begin = time.monotonic()
    failed = []
    passed = Passed(options)
    for step in passed.in_order(table.PARTS[part]):
        if passed.has(step):
            results.row(step=step.name, skipped="passed for the same sources")
            print(f"passed    {step.name}: for the same sources", flush=True)
            continue
        left = min(begin + table.BUDGET[part], options.end) - time.monotonic()
        names = names_for(step, options)
        needed = filled(step.needs, names)
        why = "the time of the part or the slot is used up" if left < 5 else ""
        if needed and not os.path.exists(needed):
            why = f"{needed} is missing"
        if why:
            results.row(step=step.name, left_out=why)
            print(f"left out  {step.name}: {why}", flush=True)
            failed.append(step.name)
            continue
        code, seconds, said = run_step(step, names, results, min(step.limit, left))
        ended = "ok" if code == 0 else "ended for its time" if code is None else f"exit code {code}"
        results.row(step=step.name, ended=ended, seconds=round(seconds, 2), estimated=step.fixed)
        print(f"{'ok' if code == 0 else 'FAILED':<8}  {step.name} ({seconds:.0f} s): {ended}", flush=True)
        if code == 0:
            passed.note(step)
        if code != 0:
            print("\n".join(said[-8:]), flush=True)
            failed.append(step.name)
    return failed


def dry_step(step, names, results):
    """Fault of the step before its first kernel, or ""."""
    if words_of(step, names)[0] == "compute-sanitizer" or step.needs:
        return ""
    code, _, said = run_step(step, names, results, step.limit)
    text = "\n".join(said)
    if step.without_gpu == "":
        return "" if code == 0 else f"exit code {code}: {text[-300:]}"
    return "" if re.search(step.without_gpu,
                           text) else f"exit code {code}, expected to hear of no GPU: {text[-300:]}"


def dry_part(part, options):
    """The same without a GPU; prints the estimate."""
    failed = []
    total = 0.0
    for step in table.PARTS[part]:
        names = names_for(step, options)
        try:
            training = predicted_seconds(step, names)
            with contextlib.closing(Results(options.out, part)) as results:
                problem = dry_step(step, names, results)
        except (RuntimeError, OSError, KeyError, ValueError) as error:
            training, problem = 0.0, f"{type(error).__name__}: {error}"
        total += step.fixed + training
        print(f"{'FAILED' if problem else 'ok':<6}  {step.name:<28} {step.fixed:5.0f} s + {training:5.1f} s "
              f"of training steps"
              + (f": {problem}" if problem else ""), flush=True)
        if problem:
            failed.append(step.name)
    budget = table.BUDGET[part]
    print(f"part {part}: {total:.0f} s by the estimates, of {budget} s", flush=True)
    return failed + ([f"part {part} takes {total:.0f} s"] if total > budget else [])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs")
    parser.add_argument("out")
    parser.add_argument("--part", type=int, action="append", choices=sorted(table.PARTS))
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--seconds", type=float, default=math.inf)
    options = parser.parse_args()
    options.end = time.monotonic() + options.seconds
    card = card_found()
    options.hardware = table.hardware_of(card)
    print(f"card: {card or 'none'}, predictions for {options.hardware}", flush=True)
    options.programs, options.out = os.path.abspath(options.programs), os.path.abspath(options.out)
    os.makedirs(options.out, exist_ok=True)
    failed = []
    for part in options.part or (1, 2, 3):
        failed += (dry_part if options.dry_run else run_part)(part, options)
    if failed:
        sys.exit("failed: " + ", ".join(failed))


if __name__ == "__main__":
    main()
