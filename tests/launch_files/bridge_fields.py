"""Prints the keys of Megatron-Bridge's ConfigContainer: "section key", a line each.

    bridge_fields.py MEGATRON_BRIDGE MEGATRON_LM > bridge_fields.txt

Folders are copies of Megatron-Bridge and of the Megatron-LM that its 3rdparty/ names. Run by hand when
Megatron-Bridge changes. Sources are read, not imported.
"""
import pathlib
import sys

if __name__ == "__main__" and ({"-h", "--help"} & set(sys.argv[1:]) or len(sys.argv) != 3):
    sys.exit(print(__doc__))

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from megatron_flags import dataclasses_of  # noqa: E402

# Classes of a section; those of Megatron-LM's core first, of Megatron-Bridge after.
SECTIONS = {
    "model": (["ModelParallelConfig", "TransformerConfig", "MLATransformerConfig"], ["GPTModelProvider"]),
    "train": (["TrainingConfig"], ["TrainingConfig"]),
    "optimizer": (["OptimizerConfig"], []),
    "ddp": (["DistributedDataParallelConfig"], ["DistributedDataParallelConfig"]),
    "mixed_precision": ([], ["MixedPrecisionConfig"]),
    "comm_overlap": ([], ["_CommOverlapConfig", "CommOverlapConfig"]),
}


def main():
    bridge = dataclasses_of(pathlib.Path(sys.argv[1]) / "src")
    core = dataclasses_of(pathlib.Path(sys.argv[2]))
    for section, (of_core, of_bridge) in SECTIONS.items():
        names = {field[0] for classes, known in ((of_core, core), (of_bridge, bridge))
                 for name in classes for field in known[name][1]}
        for name in sorted(names):
            print(section, name)


if __name__ == "__main__":
    main()
