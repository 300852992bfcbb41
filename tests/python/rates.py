#!/usr/bin/env python3
"""Replies per second of one core: rates.py PROGRAM, by hand with the package installed.

Also prints the growth of resident memory over a million lines of `plumbline ask`.
"""

import json
import os
import subprocess
import sys
import time

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

import plumbline

KEYS = dict(
    model="llama-3.1-8b", hardware="h100", gpus=64, tp=2, pp=4, gbs=512, seq_length=4096, precision="bf16"
)


def cpu_rate(count, work):
    begin = time.process_time()
    for i in range(count):
        work(i)
    return count / (time.process_time() - begin)


def ask_rate(program, kind, count):
    lines = "".join(
        json.dumps({"ask": kind, "id": i, "keys": {**KEYS, "micro_batch_size": 1 << (i % 3)}}) + "\n"
        for i in range(count)
    )
    begin = os.times()
    subprocess.run([program, "ask"], input=lines.encode(), stdout=subprocess.DEVNULL, check=True)
    end = os.times()
    return count / (end.children_user + end.children_system - begin.children_user - begin.children_system)


def resident_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


def growth(program, lines):
    child = subprocess.Popen([program, "ask"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    batch = 1000
    text = ((json.dumps({"ask": "legality", "keys": KEYS}) + "\n").encode() + b'{"bad\n') * (batch // 2)
    sizes = []
    for i in range(lines // batch):
        child.stdin.write(text)
        child.stdin.flush()
        for _ in range(batch):
            child.stdout.readline()
        if i % 10 == 9:
            sizes.append(resident_kib(child.pid))
    child.stdin.close()
    child.wait()
    return sizes[-1] - sizes[0]


def main():
    program = sys.argv[1]
    micro = [1, 2, 4]
    rate = cpu_rate(3000, lambda i: plumbline.predict(KEYS, micro_batch_size=micro[i % 3]))
    print(f"Python: {rate:.0f} predictions/s")
    rate = cpu_rate(20000, lambda i: plumbline.legality(KEYS, micro_batch_size=micro[i % 3]))
    print(f"Python: {rate:.0f} legality answers/s")
    print(f"ask: {ask_rate(program, 'predict', 3000):.0f} predictions/s")
    print(f"ask: {ask_rate(program, 'legality', 40000):.0f} legality answers/s")
    print(
        f"ask: resident memory grew by {growth(program, int(sys.argv[2]))} KiB" if len(sys.argv) > 2 else ""
    )


if __name__ == "__main__":
    main()
