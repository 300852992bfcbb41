#!/usr/bin/env python3
"""Runs the commands of a page and compares their output with the output shown there.

    run_tour.py bench/tour/README.md FOLDER_OF_THE_PROGRAM [--update]

Pages: the tour (bench/tour/README.md) and README.md. A compared block is fenced as ```console and follows a
line `<!-- tour: exact -->` or `<!-- tour: measured -->`. A line that begins with "$ " is a command; the lines
below it are its standard output. `exact`: every character counts. `measured`: parts that depend on a machine
or its load are masked in both texts before the comparison:

    times, with their unit ("1.3 ms", "941.5 us")           -> TIME
    numbers with a decimal point, or of three digits or more -> N     (but "12.50 MiB" and "1.234 GiB" stay)
    percentages                                              -> P
    the bars of a timeline ("rank 0 F0--F1.... ")            -> BARS
    the times below a timeline                               -> AXIS
    which rank ran out of memory first, and with what        -> WHO
    the unit of a table's step times, runs of blanks         -> one blank
    that a cell was disturbed, and what is known of speeds   -> nothing
    that times are guesses: the page is made calibrated      -> nothing

--update writes the present output into the page instead, with times predicted from the profile that
`calibrate` left in the home folder. Do it on a quiet machine. Exit code 0: all is as shown; 1: something
differs.
"""

import difflib
import os
import re
import subprocess
import sys
import tempfile
import time

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

LONGEST_S = 120
SOURCES = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))  # home of the commands

GONE = "\0"
MASKS = [
    (re.compile(r"^(predicted times are a guess|guess): .*$"), GONE),
    (re.compile(r"\bguess (?=\S)|, a guess(?= \()"), ""),
    (re.compile(r"^((#\d+ )?disturbed: |(predicted|measured) step time \d.*: (range|the diff)|predicted at "
                r"current machine speed: |step time and bubble: ).*$"), GONE),
    (re.compile(r", (disturbed$|\d+ of them disturbed)| \(current machine speed\), \S+ %| "
                r"\((?:calibrated|guess)\)"), ""),
    (re.compile(r"^(rank +\d+ )\S+ +[\d.]+ %$"), r"\1BARS"),
    (re.compile(r"^ +\|\S+ u?m?s.*$"), "AXIS"),
    (re.compile(r"^(#\d+ oom): .*$"), r"\1: WHO"),
    (re.compile(r"[+-]?\d+(\.\d+)?(e[+-]\d+)? (us|ms|s)\b"), "TIME"),
    (re.compile(r"[+-]?\d+(\.\d+)? %"), "P"),
    (re.compile(r"(?<![\w.])\d{1,3}(,\d{3})+(?![\w.])"), "N"),
    (re.compile(r"[+-]?\d+\.\d+(e[+-]\d+)?(/\d+\.\d+)?(?! ?(MiB|GiB)|\w)"), "N"),
    (re.compile(r"(?<![\w.])\d{3,}(?![\w.])"), "N"),
    (re.compile(r"step time, (ms|s)\b"), "step time"),
    (re.compile(r" +"), " "),
]


def masked(line):
    for pattern, replacement in MASKS:
        line = pattern.sub(replacement, line)
    return line.rstrip()


def blocks_of(text):
    """(kind, first line, last line) of the text between the fences, lines counted from 0."""
    lines = text.split("\n")
    found = []
    for number, line in enumerate(lines):
        mark = re.fullmatch(r"<!-- tour: (exact|measured) -->", line.strip())
        if not mark:
            continue
        if lines[number + 1] != "```console":
            sys.exit("line %d: expected ```console after the mark of the tour" % (number + 2))
        end = lines.index("```", number + 2)
        found.append((mark.group(1), number + 2, end))
    return lines, found


def steps_of(lines):
    """(command, what it prints) of the lines of a block."""
    steps = []
    for line in lines:
        if line.startswith("$ "):
            steps.append((line[2:], []))
        else:
            steps[-1][1].append(line)
    return steps


def run(command, folder, program):
    environment = {key: value for key, value in os.environ.items()
                   if not key.startswith(("XDG_", "OMPI_", "PMIX_"))}
    if "--update" not in sys.argv:
        environment["HOME"] = folder
    environment.update(NO_COLOR="1", LC_ALL="C.UTF-8", PATH=program + os.pathsep + os.environ["PATH"])
    started = time.monotonic()
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, timeout=LONGEST_S,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
    print("%5.1f s  %s" % (time.monotonic() - started, command), flush=True)
    if done.returncode != 0:
        sys.exit("exit code %d: %s\n%s" % (done.returncode, command, done.stderr))
    return done.stdout.rstrip("\n").split("\n") if done.stdout.strip() else []


def main():
    arguments = [each for each in sys.argv[1:] if each != "--update"]
    if len(arguments) != 2:
        sys.exit(__doc__)
    page, program = os.path.abspath(arguments[0]), os.path.abspath(arguments[1])
    with open(page, encoding="utf-8") as file:
        lines, blocks = blocks_of(file.read())
    if not blocks:
        sys.exit(page + ": no tour")
    wrong = 0
    written = lines[:]
    with tempfile.TemporaryDirectory(prefix="plumbline-tour-") as folder:
        for name in ("bench", "results"):
            os.symlink(os.path.join(SOURCES, name), os.path.join(folder, name))
        for kind, begin, end in blocks:
            output = []
            for command, shown in steps_of(lines[begin:end]):
                printed = run(command, folder, program)
                output += ["$ " + command] + [line.rstrip() for line in printed]
                same = (lambda line: line.rstrip()) if kind == "exact" else masked
                def kept(lines):
                    return [text for text in map(same, lines) if text != GONE]

                difference = list(difflib.unified_diff(kept(shown), kept(printed), "shown", "printed",
                                                       lineterm="", n=1))
                if difference:
                    wrong += 1
                    print("DIFFERENT (%s): %s\n%s" % (kind, command, "\n".join(difference)), flush=True)
            written[begin:end] = [output] + [None] * (end - begin - 1)
    if "--update" in sys.argv:
        flat = []
        for line in written:
            flat += line if isinstance(line, list) else [] if line is None else [line]
        with open(page, "w", encoding="utf-8") as file:
            file.write("\n".join(flat))
        print("%d outputs written" % wrong)
        return 0
    print("all commands print what the page shows" if not wrong
          else "%d outputs differ; --update writes them" % wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
