"""Faults around a process: disks, limits, descriptors, folders, the terminal, variables."""
import os
import pty
import resource
import shlex
import shutil
import signal
import subprocess
import time

from .bench import GOOD_ENDS, one_line, refusal_lines

MATRIX = ["matrix", "matrix.yaml", "--out", "out"]
PRINTING = [["predict", "run.yaml"], ["predict", "run.yaml", "--json"], ["compare", "clean"], ["help", "run"],
            ["compare", "clean", "--format", "html"],
            ["schedule", "1f1b", "--pp", "8", "--microbatches", "64"],
            ["--version"], ["--help"], ["doctor"], ["completion", "bash"],
            ["simulate", "--schedule", "1f1b", "--pp", "2", "--microbatches", "4", "--costs", "costs.json",
             "--json"]]
WRITING = [["simulate", "--schedule", "1f1b", "--pp", "8", "--microbatches", "64", "--costs", "costs.json",
            option, "{out}"]
           for option in ("--svg", "--trace")] + [["validate", "--plot", "{out}"]]


def any_command(chance):
    return chance.choice([MATRIX, ["run", "run.yaml", "--tp", "2"], chance.choice(PRINTING)])


def usual(bench, ended, known=None, out=None):
    """No hang, no end by a signal, one line of refusal at most, no row lost, nothing left behind."""
    findings = bench.check_end(ended, GOOD_ENDS)
    if ended.returncode in (2, 4) and len(refusal_lines(ended.stderr)) > 1:
        findings.append(f"refused with more than a line: {one_line(ended.stderr)}")
    if out is not None:
        findings += bench.check_rows(out, known)
    return findings + bench.check_leftovers()


def closed_descriptors(bench, chance):
    closed = [number for number in (0, 1, 2) if chance.random() < 0.6] or [2]
    out = bench.prepared()
    known = bench.rows(out)
    shell = f"exec {shlex.join([bench.program, *any_command(chance)])}"
    shell += "".join(f" {number}>&-" for number in closed)
    ended = bench.finish(subprocess.Popen(["sh", "-c", shell], cwd=bench.folder, env=bench.environment(),
                                          text=True,
                                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                          start_new_session=True))
    return f"closed {closed}", usual(bench, ended, known, out)


def broken_descriptors(bench, chance):
    command = any_command(chance)
    out = bench.prepared()
    known = bench.rows(out)
    which = chance.choice(["stdout", "stderr"])
    how = chance.choice(["full", "nobody"])
    if how == "full":
        descriptor = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, descriptor = os.pipe()
        os.close(reader)
    ended = bench.run(command, **{which: descriptor})
    os.close(descriptor)
    findings = usual(bench, ended, known, out)
    if which == "stdout" and how == "full" and ended.returncode == 0:
        findings.append("printed to a full disk and ended with 0")
    if which == "stderr" and ended.returncode != 0:
        findings.append(f"ended with {ended.returncode} because stderr cannot be written")
    return f"{which} to {how}: {' '.join(command[:2])}", findings


def limited(bench, chance):
    name, low, high = chance.choice([("FSIZE", 0, 1 << 18), ("FSIZE", 0, 1 << 25), ("NOFILE", 3, 40),
                                     ("NPROC", 1, 40), ("AS", 1 << 26, 1 << 31)])
    bound = chance.randint(low, high)
    command = any_command(chance)
    out = bench.prepared()
    known = bench.rows(out)
    limit = getattr(resource, "RLIMIT_" + name)
    ended = bench.run(command, preexec_fn=lambda: resource.setrlimit(limit, (bound, bound)))
    allowed = GOOD_ENDS + ((127,) if name in ("AS", "NOFILE") else ())  # no room for its libraries
    findings = bench.check_end(ended, allowed) + bench.check_rows(out, known) + bench.check_leftovers()
    return f"RLIMIT_{name} {bound}: {' '.join(command[:2])}", findings


def full_output(bench, chance):
    """A file that a command writes besides its output is whole or not there, and the command says so."""
    command = chance.choice(WRITING)
    size = chance.randint(0, 1 << 13)
    path = bench.folder / "picture"
    ended = bench.run([word.format(out=path) for word in command],
                      preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))
    findings = usual(bench, ended)
    if ended.returncode == 0 or path.exists():
        findings.append(f"ended with {ended.returncode}, and the file is "
                        f"{'' if path.exists() else 'not '}there")
    for left in bench.folder.glob("picture*"):
        findings.append(f"left {left.name}")
        left.unlink()
    return f"{command[0]} writes {size} bytes at most", findings


def small_disk(bench, chance):
    """A file system of some KiB for results, temporary files or shared memory, in a namespace of its own."""
    place = chance.choice(["out", "tmp", "/dev/shm"])
    size = chance.choice([4, 64, 256, 1024, 6 << 10, 16 << 10])
    out = bench.prepared()
    known = bench.rows(out)
    shutil.rmtree(bench.folder / "saved", ignore_errors=True)
    inner = (f"mount -t tmpfs -o size={size}k none {place} || exit 99; cp saved-row {place}/results.jsonl "
             f"2>/dev/null; "
             f"{shlex.join([bench.program, *MATRIX])}; end=$?; cp -r out saved; ls -d "
             f"/dev/shm/plumbline-run-* 2>/dev/null; "
             f"exit $end") if place == "out" else (
             f"mount -t tmpfs -o size={size}k none {place} || exit 99; "
             f"{shlex.join([bench.program, *MATRIX])}; "
             f"end=$?; cp -r out saved; exit $end")
    shutil.copy(out / "results.jsonl", bench.folder / "saved-row")
    ended = bench.finish(subprocess.Popen(["unshare", "--mount", "sh", "-c", inner], cwd=bench.folder,
                                          text=True,
                                          env=bench.environment(), stdout=subprocess.PIPE,
                                          stderr=subprocess.PIPE,
                                          start_new_session=True))
    if ended.returncode == 99 or "unshare" in ended.stderr:
        return "no small file system here", []
    findings = usual(bench, ended)
    kept = size > 16  # where the row that was there fits at all
    if kept and (bench.folder / "saved").exists():
        findings += bench.check_rows(bench.folder / "saved", known)
        rows = bench.rows(bench.folder / "saved") or {}
        failed = [record["reason"] for record in rows.values() if record["status"] not in ("ok",)]
        findings += [f"torn reason: {reason}" for reason in failed
                     if not any(word in reason
                                for word in ("MiB", "No space", "TMPDIR", "cannot be written"))]
    return f"{size} KiB in {place}", findings


def lost_folder(bench, chance):
    out = bench.prepared()
    running = bench.start(MATRIX)
    time.sleep(chance.random() * bench.matrix_s * 0.7)
    how = chance.choice(["removed", "moved"])
    aside = bench.folder / "aside"
    shutil.rmtree(aside, ignore_errors=True)
    already_done = running.poll() is not None
    if how == "removed":
        shutil.rmtree(out, ignore_errors=True)
    else:
        out.rename(aside)
    ended = bench.finish(running)
    findings = usual(bench, ended)
    if not already_done and ended.returncode == 0 and not (out / "results.jsonl").exists():
        findings.append(f"--out was {how}, and it ended with 0")
    if not already_done and (out / "results.jsonl").exists() and bench.rows(out) is None:
        findings.append("torn results in a new folder")
    return f"--out is {how}", findings


def lost_terminal(bench, chance):
    out = bench.prepared()
    known = bench.rows(out)
    master, terminal = pty.openpty()

    def take_terminal():
        import fcntl
        import termios
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    running = bench.start(MATRIX, stdin=terminal, stdout=terminal, stderr=terminal, preexec_fn=take_terminal)
    os.close(terminal)
    until = time.monotonic() + chance.random() * bench.matrix_s * 0.9
    os.set_blocking(master, False)
    while time.monotonic() < until:
        try:
            os.read(master, 65536)
        except OSError:
            pass
        time.sleep(0.01)
    os.close(master)
    ended = bench.finish(running)
    findings = bench.check_end(ended, (0, 4, -signal.SIGHUP))
    return "the terminal goes away", findings + bench.check_rows(out, known) + bench.check_leftovers()


def variables(bench, chance):
    name, value = chance.choice([
        ("PLUMBLINE_LAUNCHER_PID", "1"), ("PLUMBLINE_LAUNCHER_PID", str(os.getpid())),
        ("PLUMBLINE_LAUNCHER_PID", "x"),
        ("PLUMBLINE_LAUNCHER_PID", "999999"), ("PLUMBLINE_RECORD_OUT", "/none/of/it"),
        ("TMPDIR", "/no/such/folder"),
        ("TMPDIR", "."), ("TMPDIR", ""), ("HOME", None), ("PATH", None), ("PATH", "/none"),
        ("LC_ALL", "xx_XX"),
        ("TERM", None), ("COLUMNS", "0"), ("OMP_NUM_THREADS", "0"), ("RANK", "0"),
        ("XDG_CACHE_HOME", "/dev/null"), ("NO_COLOR", "1"), ("OMPI_MCA_btl", "none")])
    command = any_command(chance)
    out = bench.prepared()
    known = bench.rows(out)
    ended = bench.run(command, bench.environment(**{name: value}))
    findings = usual(bench, ended, known, out)
    if name == "PLUMBLINE_LAUNCHER_PID" and ended.returncode != 0:
        findings.append(f"ended with {ended.returncode}: {one_line(ended.stderr)}")
    return f"{name}={value}: {' '.join(command[:2])}", findings


FAULTS = [closed_descriptors, broken_descriptors, limited, full_output, small_disk, lost_folder,
          lost_terminal, variables]


def inject(bench, chance):
    what, findings = chance.choice(FAULTS)(bench, chance)
    return [f"{what}: {finding}" for finding in findings]
