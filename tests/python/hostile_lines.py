#!/usr/bin/env python3
"""Sends spoiled requests to `plumbline ask`, by hand: hostile_lines.py PROGRAM [LINES] [SEED].

Every line must have a reply of one line, a JSON object. Also prints the growth of resident memory after the
first tenth.
"""

import json
import random
import subprocess
import sys

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

REQUESTS = [
    {"ask": "predict", "id": 7, "keys": {"model": "gpt2-124m", "hardware": "h100", "tp": 2, "gbs": 8}},
    {"ask": "legality", "id": "a", "config": "qwen2.5-0.5b", "keys": {"tp": 2, "pp": 2, "gbs": 8}},
    {
        "ask": "compare",
        "keys": {"model": "gpt2-124m", "hardware": "h100", "gbs": 4},
        "changes": [{"tp": 2}, {"pp": 3}],
    },
    {"ask": "schedule", "schedule": "1f1b", "pp": 2, "microbatches": 4},
    {"ask": "legality", "keys": {"model": {"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 2}}},
]
VALUES = [None, True, -1, 0, 1e308, 2**63, 2**80, "", "\0", "nan", "../../etc", "\u202e", [], [[]], {},
          {"": 0}]
PIECES = [b"{", b"}", b"[" * 300, b'"', b"\\u0000", b"\xff", b"\xed\xa0\x80", b"1e999", b",", b":", b"\0",
          b"-"]


def swapped(draw, value):
    """The same JSON with one part replaced by another value."""
    if isinstance(value, dict) and value and draw.random() < 0.8:
        key = draw.choice(list(value))
        return {**value, key: swapped(draw, value[key])}
    if isinstance(value, list) and value and draw.random() < 0.8:
        place = draw.randrange(len(value))
        return value[:place] + [swapped(draw, value[place])] + value[place + 1 :]
    return draw.choice(VALUES)


def spoiled(draw):
    request = draw.choice(REQUESTS)
    if draw.random() < 0.5:
        request = swapped(draw, request)
    line = json.dumps(request).encode("utf-8", "surrogatepass")
    for _ in range(draw.randrange(4)):
        place = draw.randrange(len(line) + 1)
        change = draw.randrange(3)
        if change == 0:
            line = line[:place] + line[place + draw.randrange(20) :]
        elif change == 1:
            line = line[:place] + draw.choice(PIECES) + line[place:]
        else:
            line = line[:place] + bytes([draw.randrange(256)]) + line[place + 1 :]
    return line.replace(b"\n", b" ")


def resident_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


def main():
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 100_000
    draw = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    child = subprocess.Popen([sys.argv[1], "ask"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    errors, first = 0, 0
    for done in range(0, count, 20):  # a few lines at once: their replies must fit into a pipe
        lines = [spoiled(draw) for _ in range(20)]
        child.stdin.write(b"".join(line + b"\n" for line in lines))
        child.stdin.flush()
        for line in lines:
            reply = json.loads(child.stdout.readline())
            assert reply["schema"] == 1, (line, reply)
            if "error" in reply:
                errors += 1
                assert reply["exit_code"] in (2, 3, 4), (line, reply)
                assert not any(ord(c) < 0x20 for c in reply["error"]), (line, reply)
        if done == count // 200 * 20:
            first = resident_kib(child.pid)
    growth = resident_kib(child.pid) - first
    child.stdin.close()
    assert child.stdout.read() == b"", "a line had more than one reply"
    assert child.wait() == 0, child.returncode
    print(f"{count} lines, {errors} answered by an error, none without a reply; memory grew by {growth} KiB")


if __name__ == "__main__":
    main()
