#!/usr/bin/env python3
"""Executes notebooks: in a Jupyter kernel where nbclient is installed, else their code cells in order.

notebooks.py FILE.ipynb...      a page, FILE.md: its blocks of Python in order
"""

import importlib.util
import json
import re
import sys

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))


def execute_page(path):
    with open(path, encoding="utf-8") as file:
        blocks = re.findall(r"^```python\n(.*?)^```$", file.read(), re.DOTALL | re.MULTILINE)
    assert blocks, f"{path}: no block of Python"
    names = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"{path}, block {number}", "exec"), names)
    return "as plain Python"


def execute(path):
    if path.endswith(".md"):
        return execute_page(path)
    if importlib.util.find_spec("nbclient") and importlib.util.find_spec("ipykernel"):
        import nbclient
        import nbformat

        nbclient.NotebookClient(nbformat.read(path, as_version=4), timeout=300).execute()
        return "in a kernel"
    with open(path, encoding="utf-8") as file:
        cells = json.load(file)["cells"]
    names = {}
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{path}, cell {number}", "exec"), names)
    return "as plain Python"


for notebook in sys.argv[1:]:
    print(f"{notebook}: executed {execute(notebook)}")
