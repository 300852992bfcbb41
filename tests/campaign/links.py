"""Symbolic links and pipes in a results folder, as another user could put them there: nothing outside
changes."""
import os
import shutil

from .bench import one_line

FOLDERS = ("cells", "timelines", "claims")
# In folders, {id} is a cell's; in the results folder itself.
FILES = ("cells/{id}.yaml", "cells/{id}.log", "cells/{id}.measurement", "cells/{id}.yaml.partial",
         "timelines/{id}.json",
         "timelines/{id}.json.partial", "claims/{id}", "results.jsonl.lock", "results.jsonl")


def contents(folder):
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def inject(bench, chance):
    out = bench.prepared()
    known = bench.rows(out)
    victim = bench.folder / "victim"
    shutil.rmtree(victim, ignore_errors=True)
    victim.mkdir()
    missing = [each for each in bench.clean_rows if each not in known]
    for name in ["precious"] + [f"{each}{ending}" for each in missing
                                for ending in (".yaml", ".log", ".json", "")]:
        (victim / name).write_text("of somebody else\n")
    before = contents(victim)

    name = chance.choice(FOLDERS + FILES).format(id=chance.choice(missing))
    link = out / name
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    how = "link"
    if name in FOLDERS:
        link.symlink_to(victim)
    elif chance.random() < 0.2:
        os.mkfifo(link)
        how = "pipe"
    else:
        link.symlink_to(victim / chance.choice(["precious", "new"]))
    shared = name.startswith("claims") or name.endswith(".lock") or chance.random() < 0.3
    share = ["--share"] if shared else []
    ended = bench.run(["matrix", "matrix.yaml", "--out", "out", "--quiet", *share])
    findings = bench.check_end(ended, (0, 2, 4))
    if contents(victim) != before:
        findings.append("a file outside of the folder changed")
    if name != "results.jsonl":
        findings += bench.check_rows(out, known)
    if name in FOLDERS and ended.returncode == 0 and link.is_symlink() and (share or name != "claims"):
        findings.append("went on without a word")
    if (ended.returncode == 2 and "symbolic link" not in ended.stderr and how == "link"
            and name != "results.jsonl"):
        findings.append(f"does not say what is wrong: {one_line(ended.stderr)}")
    return [f"{how} at {name}: {finding}" for finding in findings + bench.check_leftovers()]
