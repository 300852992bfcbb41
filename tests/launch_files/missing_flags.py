"""Prints flags of a copy of Megatron-LM that core/launch_files/megatron_flags.txt does not have.

    missing_flags.py MEGATRON_LM_FOLDER

Run by hand when Megatron-LM changes. The sources are read, not imported. Exit code 1 if a flag is missing.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from megatron_flags import megatron_flags  # noqa: E402

TABLE = pathlib.Path(__file__).parents[2] / "core/launch_files/megatron_flags.txt"


def table_rows(path):
    """{flag: section} of a table; underscores count as dashes."""
    rows, section = {}, ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = line[1:line.rindex("]")]
        elif line and not line.startswith("#") and section != "names":
            rows[line.split()[0].replace("_", "-")] = section
    return rows


def main():
    rows = table_rows(TABLE)
    flags = {flag.replace("_", "-") for flag in megatron_flags(sys.argv[1])}
    missing = sorted(flags - set(rows))
    counts = {}
    for flag in flags & set(rows):
        kind = rows[flag].split(":")[0]
        counts[kind] = counts.get(kind, 0) + 1
    print(f"{len(flags)} flags:", ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
    for flag in missing:
        print("missing:", flag)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
