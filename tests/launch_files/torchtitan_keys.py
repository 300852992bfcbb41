"""Keys of torchtitan's job configuration, read from its job_config.py without importing it."""
import ast
import pathlib


def torchtitan_keys(path):
    """Set of "training.seq_len" of the class JobConfig in the file `path`."""
    tree = ast.parse(pathlib.Path(path).read_text(encoding="utf-8"))
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}

    def walk(name, prefix):
        for field in classes[name].body:
            if not isinstance(field, ast.AnnAssign):
                continue
            kind = ast.unparse(field.annotation)
            if kind in classes:
                yield from walk(kind, f"{prefix}{field.target.id}.")
            else:
                yield prefix + field.target.id

    return set(walk("JobConfig", ""))
