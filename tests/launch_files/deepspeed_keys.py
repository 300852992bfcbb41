"""Keys of DeepSpeed's configuration, read from its documentation and from its ZeRO configuration class."""
import ast
import pathlib
import re

# Part of the key that a heading of the page stands for.
SECTIONS = {
    "ZeRO Optimizations for FP16 Training": "zero_optimization",
    "Parameter offloading": "zero_optimization.offload_param",
    "Optimizer offloading": "zero_optimization.offload_optimizer",
    "Asynchronous I/O": "aio",
    "Tensor Parallel (AutoTP)": "tensor_parallel",
    "Expert Parallel (AutoEP)": "expert_parallel",
    "Hybrid Engine": "hybrid_engine",
    "Autotuning": "autotuning",
    "Flops Profiler": "flops_profiler",
    "Activation Checkpointing": "activation_checkpointing",
    "Data Efficiency": "data_efficiency",
    "Curriculum Learning": "curriculum_learning",
    "Layer Reduction": "compression_training.layer_reduction",
    "Weight Quantization": "compression_training.weight_quantization",
    "Activation Quantization": "compression_training.activation_quantization",
    "Sparse Pruning": "compression_training.sparse_pruning",
    "Row Pruning": "compression_training.row_pruning",
    "Head Pruning": "compression_training.head_pruning",
    "Channel Pruning": "compression_training.channel_pruning",
    "Checkpoint options": "checkpoint",
    "AutoTP options": "compile",
    "DeepCompile activation offload": "compile",
    "Data Type options": "data_types",
}
# Keys of AutoTP's rules for layers, which are a level deeper.
LAYERS = ["use_default_specs", "layer_specs", "patterns", "partition_type", "shape", "partition_dim",
          "model_types"]


def documented_keys(page):
    """Keys of docs/_pages/config-json.md: headings and bold names."""
    found, section = set(), ""
    for line in pathlib.Path(page).read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            section = SECTIONS.get(line.strip("# "), "")
        match = re.match(r"(?:\*\*\*|<i>\*\*)([a-z0-9_:\\]+)(?:\*\*\*|\*\*</i>): \[(\w*)", line)
        if not match or match[2] == "dictionary":
            continue
        name = match[1].replace("\\", "").replace(":", ".")
        prefix = section
        if section == "tensor_parallel" and name in LAYERS:
            prefix += ".partition_config"
        if name == "ignore_unused_parameters":
            prefix = "zero_optimization"
        found.add(f"{prefix}.{name}" if prefix else name)
    return found


def zero_keys(source):
    """Fields of DeepSpeedZeroConfig in deepspeed/runtime/zero/config.py, with their aliases."""
    tree = ast.parse(pathlib.Path(source).read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == "DeepSpeedZeroConfig":
            for field in node.body:
                if not isinstance(field, ast.AnnAssign):
                    continue
                name = field.target.id
                if isinstance(field.value, ast.Call):
                    names = {each.arg: each.value for each in field.value.keywords}
                    name = ast.literal_eval(names["alias"]) if "alias" in names else name
                yield f"zero_optimization.{name}"


def deepspeed_keys(root):
    """Both, below the folder of a copy of DeepSpeed."""
    root = pathlib.Path(root)
    sections = {"zero_optimization.offload_param", "zero_optimization.offload_optimizer",
                "zero_optimization.zenflow", "zero_optimization.leaf_module",
                "zero_optimization.zeropp_loco_param"}
    return documented_keys(root / "docs/_pages/config-json.md") | (
        set(zero_keys(root / "deepspeed/runtime/zero/config.py")) - sections)
