"""Flags that Megatron-LM's argument parser accepts, read from its sources without importing them."""
import ast
import pathlib
import sys

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))


def literal(node):
    """The value of a constant expression, or its source text."""
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return ast.unparse(node)


def dataclasses_of(root):
    """Name of every class below `root` -> (bases, fields as (name, type, default, argparse_meta))."""
    found = {}
    for path in sorted(root.glob("megatron/**/*.py")):
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node in ast.walk(tree):
            if not isinstance(node, ast.ClassDef):
                continue
            fields = []
            for statement in node.body:
                if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
                    continue
                default, meta, init = statement.value, {}, True
                if isinstance(default, ast.Call) and ast.unparse(default.func).endswith("field"):
                    words = {each.arg: each.value for each in default.keywords}
                    default = words.get("default", words.get("default_factory"))
                    init = literal(words["init"]) if "init" in words else True
                    if "metadata" in words and isinstance(words["metadata"], ast.Dict):
                        for key, value in zip(words["metadata"].keys, words["metadata"].values):
                            if literal(key) == "argparse_meta" and isinstance(value, ast.Dict):
                                meta = {literal(k): literal(v) for k, v in zip(value.keys, value.values)}
                if init is False:
                    continue
                kind = ast.unparse(statement.annotation)
                fields.append((statement.target.id, kind, None if default is None else literal(default),
                               meta))
            found.setdefault(node.name, ([ast.unparse(base) for base in node.bases], fields))
    return found


def fields_of(name, classes):
    """Fields of a class and of its bases."""
    bases, fields = classes.get(name.split(".")[-1], ([], []))
    found = {field[0]: field for base in bases for field in fields_of(base, classes)}
    found.update({field[0]: field for field in fields})
    return list(found.values())


def flags_of_class(name, excluded, classes):
    """Flags that ArgumentGroupFactory makes of a dataclass: (flag, dest, default)."""
    for field, kind, default, meta in fields_of(name, classes):
        if field in excluded:
            continue
        dashed = field.replace("_", "-")
        names = ["--" + dashed]
        if kind.replace(" ", "").split("|")[0] == "bool" and default is True:
            names = ["--no-" + dashed, "--disable-" + dashed]
        for flag in meta.get("arg_names", names):
            yield flag, meta.get("dest", field), default


def megatron_flags(root):
    """{flag: (dest, default)} of megatron/training/arguments.py below `root`."""
    root = pathlib.Path(root)
    classes = dataclasses_of(root)
    tree = ast.parse((root / "megatron/training/arguments.py").read_text(encoding="utf-8"))
    constants = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            if isinstance(node.value, (ast.List, ast.Tuple)):
                constants[node.targets[0].id] = literal(node.value)
    flags = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        words = {each.arg: each.value for each in node.keywords}
        if called.endswith("add_argument"):
            names = [literal(each) for each in node.args]
            default = literal(words["default"]) if "default" in words else None
            for flag in names:
                if isinstance(flag, str) and flag.startswith("--"):
                    usual = names[0].lstrip("-").replace("-", "_")
                    dest = literal(words["dest"]) if "dest" in words else usual
                    flags.setdefault(flag, (dest, default))
        elif called.endswith("ArgumentGroupFactory"):
            excluded = words.get("exclude")
            excluded = literal(excluded) if excluded is not None else []
            if isinstance(excluded, str):
                excluded = constants.get(excluded, [])
            for flag, dest, default in flags_of_class(ast.unparse(node.args[0]), excluded, classes):
                flags.setdefault(flag, (dest, default))
    return flags


if __name__ == "__main__":
    for name, (dest, default) in sorted(megatron_flags(sys.argv[1]).items()):
        print(f"{name}\t{dest}\t{default}")
