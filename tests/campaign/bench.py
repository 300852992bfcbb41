"""The place of injections: a folder, a small matrix, a way to run the program, and the checks afterwards."""
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

HANG_S = 120  # of a busy machine; the matrix takes seconds
MODEL = """model: {model_type: qwen2, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4,
        num_key_value_heads: 2, intermediate_size: 96, vocab_size: 128, max_position_embeddings: 64,
        rms_norm_eps: 1.0e-6, tie_word_embeddings: true}
"""
RUN = MODEL + "seq_length: 16\nglobal_batch_size: 4\nprecision: fp32\nsteps: 2\n"
MATRIX = RUN + "timeout_s: 60\nmatrix:\n  tensor_model_parallel_size: [1, 2]\n  micro_batch_size: [1, 2]\n"
CELLS = 4
CHEAP = ["schedule", "1f1b", "--pp", "2", "--microbatches", "2"]  # "the next command of any kind"
COSTS = '{"stages": [{"forward_us": 100, "backward_us": 200}], "p2p_us": 5}'
GOOD_ENDS = (0, 1, 2, 3, 4, 5)
# Control characters except line breaks and tabs, and marks of writing direction.
OBEYED = re.compile("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f"
                    "\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]")


class Bench:
    """Use as a context manager; its folder is gone afterwards."""

    def __init__(self, program):
        self.program = str(Path(program).resolve())
        self.sources = Path(__file__).resolve().parents[2]

    def __enter__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="plumbline-campaign-"))
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.token = f"{self.folder.name}-{os.getpid()}"
        for name, text in {"run.yaml": RUN, "matrix.yaml": MATRIX, "costs.json": COSTS}.items():
            (self.folder / name).write_text(text)
        begun = time.monotonic()
        clean = self.run(["matrix", "matrix.yaml", "--out", "clean", "--quiet"])
        self.matrix_s = time.monotonic() - begun
        self.clean_rows = self.rows(self.folder / "clean")
        if clean.returncode != 0 or len(self.clean_rows) != CELLS:
            raise SystemExit(f"without any fault the matrix ended with {clean.returncode}: "
                             f"{clean.stderr[-500:]}")
        return self

    def __exit__(self, *_):
        for process in self.processes():
            os.kill(process, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def environment(self, **changes):
        """HOME and TMPDIR are the campaign's own; None takes a variable away."""
        made = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "TMPDIR": str(self.temporary),
                "PLUMBLINE_CAMPAIGN": self.token}
        made.update(changes)
        return {name: value for name, value in made.items() if value is not None}

    def start(self, arguments, environment=None, **options):
        defaults = dict(stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                        errors="replace", cwd=self.folder, start_new_session=True)
        defaults.update(options)
        return subprocess.Popen([self.program, *map(str, arguments)], env=environment or self.environment(),
                                **defaults)

    def finish(self, process, limit=HANG_S):
        """The ended process; its returncode is None when it hung and had to be killed."""
        try:
            out, err = process.communicate(timeout=limit)
            return subprocess.CompletedProcess(process.args, process.returncode, out or "", err or "")
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            return subprocess.CompletedProcess(process.args, None, out or "", err or "")

    def run(self, arguments, environment=None, limit=HANG_S, **options):
        return self.finish(self.start(arguments, environment, **options), limit)

    def processes(self):
        """Living processes that this campaign started, directly or not."""
        found = []
        mark = f"PLUMBLINE_CAMPAIGN={self.token}".encode()
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or int(entry) == os.getpid():
                continue
            try:
                if mark in Path(f"/proc/{entry}/environ").read_bytes().split(b"\0"):
                    found.append(int(entry))
            except OSError:
                pass
        return found

    def variable(self, process, name):
        """True if a process has started with this variable."""
        try:
            return f"\0{name}=".encode() in b"\0" + Path(f"/proc/{process}/environ").read_bytes()
        except OSError:
            return False

    def parent_of(self, process):
        try:
            return int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, ValueError, IndexError):
            return -1

    def doing(self, process):
        """Cause of a process's wait, as far as the system gives it."""
        found = []
        for name in ("status", "wchan", "syscall", "stack"):
            try:
                text = Path(f"/proc/{process}/{name}").read_text()
            except OSError:
                continue
            if name == "status":
                text = " ".join(line for line in text.split("\n")
                                if line.startswith(("State", "PPid", "Threads", "SigBlk")))
            found.append(f"{name}: {' '.join(text.split())}")
        for child in self.children_of(process):
            try:
                found.append("child " + Path(f"/proc/{child}/stat").read_text().split(" 0 ")[0])
            except OSError:
                pass
        return "; ".join(found)

    def children_of(self, process):
        """Zombies included."""
        return [entry for entry in os.listdir("/proc") if entry.isdigit()
                and self.parent_of(entry) == process]

    def command_line(self, process):
        try:
            return Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return [b""]

    def prepared(self, name="out", rows=1):
        """A results folder with so many finished cells."""
        out = self.folder / name
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        lines = (self.folder / "clean" / "results.jsonl").read_text().splitlines(keepends=True)
        (out / "results.jsonl").write_text("".join(lines[:rows]))
        return out

    def rows(self, out):
        """id -> record of every whole line; None when a line is no record."""
        path = out / "results.jsonl"
        if not path.exists():
            return {}
        found = {}
        for line in path.read_text(errors="replace").split("\n")[:-1]:
            try:
                record = json.loads(line)
                found[record["id"]] = record
            except (ValueError, KeyError, TypeError):
                return None
        return found

    # --- checks: each returns findings

    def check_end(self, ended, allowed=GOOD_ENDS, binary=False):
        """`binary`: standard output is for programs alone."""
        if ended.returncode is None:
            return ["hangs"]
        if ended.returncode not in allowed:
            return [f"ends with {ended.returncode}: {one_line(ended.stderr)}"]
        obeyed = OBEYED.search(("" if binary else ended.stdout or "") + (ended.stderr or ""))
        return [f"prints U+{ord(obeyed[0]):04X}, which a terminal obeys"] if obeyed else []

    def check_rows(self, out, known):
        rows = self.rows(out)
        if rows is None:
            return ["results.jsonl holds a line that is no record"]
        lost = [each for each in known if rows.get(each, {}).get("status") != known[each]["status"]]
        return [f"finished rows are lost or changed: {', '.join(lost)}"] if lost else []

    def check_leftovers(self):
        """No process now; no folder after the next command, whatever it is."""
        findings = []
        deadline = time.monotonic() + 20
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.02)
        for process in self.processes():
            words = b" ".join(self.command_line(process)).decode(errors="replace")
            findings.append(f"left a process: {words[:120]} ({self.doing(process)})")
            os.kill(process, signal.SIGKILL)
        for attempt in range(2):  # somebody else's command may be about to take its own away
            self.run(CHEAP)
            left = self.folders()
            if not left:
                return findings
            time.sleep(0.5 * attempt)
        for path in left:
            findings.append(f"left {path}")
            shutil.rmtree(path, ignore_errors=True)
            Path(path).unlink(missing_ok=True)
        return findings

    def folders(self):
        """Contents of the temporary folder, and files in /dev/shm whose owner is gone."""
        left = [str(path) for path in self.temporary.iterdir()]
        for path in Path("/dev/shm").glob("*"):
            if path.name.startswith(f"plumbline-run-{os.getuid()}-") and not is_locked(path):
                left.append(str(path))
        return left


def is_locked(path):
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(descriptor)


def one_line(text):
    return " | ".join(text.strip().splitlines()[-3:])[:300]


def refusal_lines(stderr):
    """Lines of stderr that are neither progress, nor a note, nor the picture of a schedule."""
    lines = [line for line in stderr.replace("\r", "\n").splitlines() if line.strip()]
    return [line for line in lines if not re.match(r"(note: |about \d|\[\d+/\d+\] |\[calibrate\]|stopped: "
                                                   r"|step \d|rank +\d+ +\|)", line)]
