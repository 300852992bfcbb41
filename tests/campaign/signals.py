"""A signal at a random moment of a small matrix."""
import os
import signal
import time

from .bench import CELLS

TARGETS = ("plumbline", "supervisor", "mpirun", "rank", "all")
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
OF_RANKS = (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS)


def is_a(bench, process, target, caller):
    words = bench.command_line(process)
    if target == "supervisor":  # not its forks, which have its words until they execute another program
        return b"--plumbline-supervise" in words and bench.parent_of(process) == caller
    if target == "mpirun":
        return words[0].endswith(b"mpirun")
    return (len(words) > 1 and words[0].endswith(b"plumbline")
            and bench.variable(process, "OMPI_COMM_WORLD_RANK"))


def find(bench, target, chance, until, caller):
    """A process of that kind, waited for; None when the matrix is over."""
    while time.monotonic() < until:
        found = [process for process in bench.processes() if is_a(bench, process, target, caller)]
        if found:
            return chance.choice(found)
        time.sleep(0.002)
    return None


def kill(process, number):
    try:
        os.kill(process, number)
        return True
    except ProcessLookupError:
        return False


def inject(bench, chance):
    target = chance.choice(TARGETS)
    number = chance.choice(OF_RANKS if target == "rank" else ENDING)
    out = bench.prepared()
    known = bench.rows(out)
    running = bench.start(["matrix", "matrix.yaml", "--out", "out"])
    time.sleep(chance.random() * bench.matrix_s * 0.8)
    hit = True
    if target == "plumbline":
        hit = kill(running.pid, number)
    elif target == "all":
        for process in bench.processes():
            kill(process, number)
    else:
        victim = find(bench, target, chance, time.monotonic() + bench.matrix_s, running.pid)
        hit = victim is not None and kill(victim, number)
    ended = bench.finish(running)

    allowed = (0, 4)
    if target in ("plumbline", "all"):
        allowed += (-number,)  # before it listens, or nothing can be done
    findings = bench.check_end(ended, allowed)
    findings += bench.check_rows(out, known)
    findings += bench.check_leftovers()
    rows = bench.rows(out) or {}
    failed = {row: record["reason"] for row, record in rows.items() if record["status"] != "ok"}
    findings += wrong_reasons(failed, target, number) if hit else []
    if target == "supervisor" and hit and number != signal.SIGKILL and ended.returncode == 0 and failed:
        findings.append("the supervisor was told to end, and the matrix went on")
    if chance.random() < 0.2 and not findings:
        again = bench.run(["matrix", "matrix.yaml", "--out", "out", "--retry", "--quiet"])
        rows = bench.rows(out) or {}
        good = sum(record["status"] == "ok" for record in rows.values())
        if again.returncode != 0 or good != CELLS:
            findings.append(f"resumed, it ends with {again.returncode} and {good} of {CELLS} cells")
    return [f"{signal.Signals(number).name} to {target}: {finding}" for finding in findings]


def wrong_reasons(failed, target, number):
    """A cell that failed says who was hit by what."""
    named = {"rank": "rank ", "mpirun": "mpirun", "supervisor": "supervisor"}.get(target)
    findings = []
    for reason in failed.values():
        if named is not None and named not in reason:
            findings.append(f"the reason names somebody else: {reason}")
        elif target in ("rank", "supervisor") and f"signal {int(number)} " not in reason:
            findings.append(f"the reason does not say signal {int(number)}: {reason}")
    return findings
