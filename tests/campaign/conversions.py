"""Conversions of checkpoints that are killed, run out of disk, or find damaged files."""
import resource
import shutil
import signal
import time

from convert_speed import make

from .bench import one_line, refusal_lines
from .files import SOON_S, damage

SPLIT = ["--to", "megatron", "--tp", "2", "--pp", "2"]
OTHER = ["--to", "megatron", "--pp", "4"]
ENDING = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


def files_of(folder):
    """name -> bytes of a checkpoint; nothing where it is not there. What says where it came from differs."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name != "conversion.json"}


class Conversions:
    """Checkpoints of one model, and what conversions of them should give."""

    def __init__(self, bench):
        self.bench = bench
        make(bench.folder / "hf", 256, 4, vocabulary=4096)
        self.ways = {"to Megatron": ("hf", SPLIT), "back": ("tp2pp2", []), "resplit": ("tp2pp2", OTHER),
                     "of torch_dist": ("dist", ["--model", "dist/hf"])}
        self.convert("hf", "tp2pp2", SPLIT)
        shutil.copytree(bench.sources / "tests/golden/torch_dist/llama/torch_dist", bench.folder / "dist")
        shutil.copytree(bench.sources / "tests/golden/torch_dist/llama/hf", bench.folder / "dist/hf")
        self.whole, self.seconds = {}, {}
        for way, (source, options) in self.ways.items():
            begun = time.monotonic()
            self.convert(source, "whole", options)
            self.seconds[way] = time.monotonic() - begun
            self.whole[way] = files_of(bench.folder / "whole")
            shutil.rmtree(bench.folder / "whole")
        self.convert("hf", "before", ["--to", "megatron"])

    def convert(self, source, target, options):
        ended = self.bench.run(["convert", source, target, *options, "--quiet"])
        if ended.returncode != 0:
            raise SystemExit(f"without any fault convert ended with {ended.returncode}: "
                             f"{ended.stderr[-500:]}")


def inject(bench, chance):
    if not hasattr(bench, "conversions"):
        bench.conversions = Conversions(bench)
    made = bench.conversions
    for name in ("out", "out.partial", "damaged"):
        shutil.rmtree(bench.folder / name, ignore_errors=True)
    what = chance.choices([kill, fill, break_file], [6, 2, 4])[0]
    way = chance.choice(list(made.ways))
    source, options = made.ways[way]
    return [f"{what.__name__}, {way}: {finding}"
            for finding in what(bench, chance, made, way, source, options)]


def check_target(bench, made, way, before):
    found = files_of(bench.folder / "out")
    return [] if found in (before, made.whole[way]) else ["the target is neither as it was nor whole"]


def goes_on(bench, made, way, arguments):
    """The same conversion, undisturbed, completes it."""
    again = bench.run(arguments)
    findings = bench.check_end(again, (0,))
    if files_of(bench.folder / "out") != made.whole[way]:
        findings.append("the next conversion does not give what it should")
    if (bench.folder / "out.partial").exists():
        findings.append("the next conversion leaves out.partial")
    return findings


def kill(bench, chance, made, way, source, options):
    before = {}
    if chance.random() < 0.5:  # replaces another one
        shutil.copytree(bench.folder / "before", bench.folder / "out")
        before = files_of(bench.folder / "out")
    number = chance.choice(ENDING)
    arguments = ["convert", source, "out", *options, "--quiet", "--overwrite"]
    running = bench.start(arguments)
    time.sleep(chance.random() * made.seconds[way])
    running.send_signal(number)
    ended = bench.finish(running)
    findings = bench.check_end(ended, (0, 4, -number))
    findings += check_target(bench, made, way, before)
    return findings + goes_on(bench, made, way, arguments)


def fill(bench, chance, made, way, source, options):
    largest = max(len(data) for data in made.whole[way].values())
    most = chance.randrange(1, largest)

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    arguments = ["convert", source, "out", *options, "--quiet"]
    ended = bench.run(arguments, preexec_fn=limit)
    findings = bench.check_end(ended, (4,)) + one_line_only(ended)
    findings += check_target(bench, made, way, {})
    return findings + goes_on(bench, made, way, arguments)


def break_file(bench, chance, made, way, source, options):
    """Weights that are damaged may be converted: they are other weights."""
    shutil.copytree(bench.folder / source, bench.folder / "damaged")
    if source == "dist":
        options = ["--model", "damaged/hf"]
    path = chance.choice([each for each in sorted((bench.folder / "damaged").rglob("*")) if each.is_file()])
    if chance.random() < 0.2:
        path.unlink()
    else:
        data = path.read_bytes()
        # Mostly where names, shapes and directories are, not weights.
        head = min(len(data), 4096)
        end = chance.random() < 0.4
        path.write_bytes(data[:-head] + damage(data[-head:], chance) if end
                         else damage(data[:head], chance) + data[head:])
    ended = bench.run(["convert", "damaged", "out", *options, "--quiet"], limit=SOON_S)
    findings = bench.check_end(ended, (0, 2)) + one_line_only(ended)
    if ended.returncode == 2 and (bench.folder / "out").exists():
        findings.append("refused, and the target is there")
    return findings


def one_line_only(ended):
    lines = refusal_lines(ended.stderr)
    if ended.returncode in (2, 4) and (len(lines) != 1 or len(lines[0]) > 2000):
        return [f"refused with {len(lines)} lines: {one_line(ended.stderr)}"]
    return []
