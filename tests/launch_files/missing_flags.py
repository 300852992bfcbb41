"""Prints arguments of a framework's sources that its table in core/launch_files does not have.

    missing_flags.py SOURCES [megatron-lm | torchtitan | deepspeed]

SOURCES is the folder of a copy of Megatron-LM or DeepSpeed, or torchtitan's job_config.py. Run by hand when a
framework changes. Sources are read, not imported. Exit code 1 if an argument is missing.
"""
import pathlib
import sys

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from deepspeed_keys import deepspeed_keys  # noqa: E402
from megatron_flags import megatron_flags  # noqa: E402
from torchtitan_keys import torchtitan_keys  # noqa: E402

TABLES = pathlib.Path(__file__).parents[2] / "core/launch_files"
FRAMEWORKS = {
    "megatron-lm": ("megatron_flags.txt", megatron_flags),
    "torchtitan": ("torchtitan_keys.txt", torchtitan_keys),
    "deepspeed": ("deepspeed_keys.txt", deepspeed_keys),
}


def table_rows(path):
    """{argument: section} of a table; underscores count as dashes."""
    rows, section = {}, ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = line[1:line.rindex("]")]
        elif line and not line.startswith("#") and section != "names":
            rows[line.split()[0].replace("_", "-")] = section
    return rows


def row_of(name, rows):
    """Section of an argument, or of the rows "section.*" above it; None when it has none."""
    while name not in rows:
        if "." not in name:
            return None
        name = name.removesuffix(".*").rpartition(".")[0] + ".*"
        if name == ".*":
            return None
    return rows[name]


def main():
    table, arguments_of = FRAMEWORKS[sys.argv[2] if len(sys.argv) > 2 else "megatron-lm"]
    rows = table_rows(TABLES / table)
    sections = {each.replace("_", "-"): row_of(each.replace("_", "-"), rows)
                for each in arguments_of(sys.argv[1])}
    counts = {}
    for section in sections.values():
        if section is not None:
            kind = section.split(":")[0]
            counts[kind] = counts.get(kind, 0) + 1
    print(f"{len(sections)} arguments:",
          ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
    missing = sorted(name for name, section in sections.items() if section is None)
    for name in missing:
        print("missing:", name)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
