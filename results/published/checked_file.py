"""A file that a script makes, or compares with what it would make."""


def write_or_check(out, text, check, script):
    """Writes `text` to the path `out`; with `check`, compares. Returns the exit status."""
    if not check:
        out.write_text(text)
        return 0
    if out.read_text() == text:
        return 0
    print(f"{out.name} is out of date; run {script} without --check")
    return 1
