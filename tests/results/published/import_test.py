#!/usr/bin/env python3
"""results/published/import.py: every row of a source is in a table or named with a reason, in any order.

    import_test.py IMPORTER SHIPPED_DIR PLUMBLINE SOURCE_DIR

Rows have any values. A part that needs the sources is left out if SOURCE_DIR is absent.
"""

import collections
import csv
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest

IMPORTER, SHIPPED, PLUMBLINE, SOURCE = (pathlib.Path(each) for each in sys.argv[1:5])

SUMMARY = ["release", "phase", "system", "model", "gpus", "precision", "gbs", "mbs", "seq", "fsdp", "tp",
           "pp", "cp", "vp", "ep",
           "ga", "tokens_per_s_per_gpu", "model_tflops_per_gpu", "step_s_derived", "note", "source"]


def summary(**cells):
    """A made-up row of a performance summary: Llama 3 8B, 51.47 GFLOP per token at 8192 tokens."""
    row = dict(zip(SUMMARY, ["26.02", "Pre-Training", "DGX-H100", "LLAMA3_8B", "8", "BF16", "128", "1",
                             "8192", "0", "1", "1",
                             "1", "n/a", "n/a", "", "10000", "515", "", "", "somewhere"]))
    row.update(cells)
    return row


def write(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


class Import(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        self.out = self.root / "out"
        self.addCleanup(self.folder.cleanup)

    def run_import(self, source):
        done = subprocess.run([sys.executable, IMPORTER, source, self.out], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        counts = {line.split(":")[0]: (int(line.split()[1]), int(line.split()[3]))
                  for line in done.stdout.splitlines()}
        return counts, (self.out / "not_imported.txt").read_text()

    def figures(self, name):
        """Rows in any order; of rows that repeat each other either label may stay."""
        return collections.Counter(tuple(value for column, value in row.items()
                                         if column not in ("label", "source"))
                                   for row in read(self.out / name))

    def header(self, name):
        return [line for line in (self.out / name).with_suffix(".yaml").read_text().splitlines()
                if not line.startswith("source:")]

    def validate(self):
        done = subprocess.run([PLUMBLINE, "validate", "--tables", self.out, "--json"], capture_output=True,
                              text=True)
        return done, json.loads(done.stdout)

    def test_rows_are_placed_or_named(self):
        write(self.root / "perf.csv", [
            summary(), summary(gpus="24", tp="16"), summary(tokens_per_s_per_gpu="20000"),
            summary(model="LLAMA9_1B"),
            summary(system="TPU v9"), summary(precision="INT3"), summary(), summary(mbs=""),
            summary(gbs="100"),
            summary(tp="4", gpus="16"), summary(cp="2"),
            summary(model="Qwen3_30B_a3B", ep="8", model_tflops_per_gpu="230"),
            summary(precision="NVFP4", system="DGX-GB200"), summary(phase="LoRA"), summary(gpus="many"),
            summary(tokens_per_s_per_gpu="", model_tflops_per_gpu="")])
        write(self.root / "something_else.csv", [{"a": "1"}])
        counts, left = self.run_import(self.root)
        self.assertEqual(counts, {"perf.csv": (7, 9)})
        for line in ["perf.csv row 2: contradicts itself: 24 GPUs, tensor x pipeline x context = 16",
                     "perf.csv row 3: contradicts itself: 25.8 GFLOP per token, 51.5 in the other rows",
                     "row 4: the model \"LLAMA9_1B\" is not",
                     "row 5: the accelerator \"TPU v9\" is not known",
                     "row 6: the precision \"INT3\" is not known",
                     "row 7: repeats row 1",
                     "row 9: contradicts itself: batch 100, micro-batch 1 x 8 replicas",
                     "row 15: cannot be read",
                     "row 16: no measured value", "something_else.csv: holds no training runs"]:
            self.assertIn(line, left)
        rows = read(self.out / "perf.csv")
        self.assertEqual(rows[0]["flops"], "causal-attention")
        self.assertEqual([row["tp_comm_overlap"] for row in rows], ["", "", "true", "", "", "", ""])
        done, report = self.validate()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([(row["frozen"], row["lora_targets"]) for row in rows if row["frozen"]],
                         [("lora", "qkv")])
        self.assertEqual([row["fp4_format"] for row in rows if row["fp4_format"]], ["e2m1"])
        open_rows = [row for table in report["tables"] for row in table["comparisons"]
                     if row["settings"].get("micro_batch_size") == "unstated"]
        self.assertEqual(len(open_rows), 1)
        self.assertEqual(open_rows[0]["unstated"]["choice"], "micro_batch_size 1")

    def test_recipes_of_mlperf(self):
        """Settings of NVIDIA's implementation for all who submit it, and nobody else's."""
        def run(**cells):
            row = {"round": "v5.0", "submitter": "S", "system": "s", "benchmark": "llama2_70b_lora",
                   "accelerator": "NVIDIA H200-SXM-141GB", "gpus": "8", "tp": "1", "pp": "1", "cp": "2",
                   "vp": "", "dp": "4", "mbs": "",
                   "microbatches_per_replica": "2", "gbs": "8", "seq": "8192", "fp8": "", "fp4": "",
                   "asym_pp_embed_loss": "",
                   "layer_cuda_graph": "", "step_s_median": "3.1", "tokens_per_s_per_gpu": "",
                   "max_memory_gb_logged": "70",
                   "step_source": "", "model_dims": "", "config_file": ""}
            return {**row, **cells}
        write(self.root / "lora.csv", [
            run(), run(fp8="True", layer_cuda_graph="1", step_s_median="3.2"),
            run(accelerator="AMD Instinct MI325X 256GB HBM3e", mbs="1", fp8="True"),
            run(round="v5.1", benchmark="llama31_8b", fp8="True", step_s_median="0.2", cp="1", dp="8",
                microbatches_per_replica="1",
                config_file="NVIDIA/benchmarks/llama31_8b/implementations/nemo/config_H200_1x8x1.sh"),
            run(round="v5.1", benchmark="llama31_405b", fp8="True", pp="2", dp="2",
                microbatches_per_replica="4")])
        counts, left = self.run_import(self.root)
        self.assertEqual(counts, {"lora.csv": (5, 0)}, left)
        columns = ["fp8_recipe", "grad_dtype", "fp8_param_gather", "cp_comm_type", "cuda_graph_impl",
                   "peak_gb"]
        header = (self.out / "lora.yaml").read_text()
        self.assertIn('precision: "fp8"', header)
        self.assertIn('micro_batch_size: "1"', header)
        rows = [tuple(row.get(column, "") for column in columns) for row in read(self.out / "lora.csv")]
        self.assertEqual(rows, [("delayed", "same", "true", "a2a", "none", "70"),
                                ("delayed", "same", "true", "a2a", "transformer_engine", "70"),
                                ("unstated", "", "", "", "", "70"),
                                ("tensorwise", "same", "true", "", "none", "70"),
                                ("tensorwise", "same", "true", "", "none", "")])

    def test_graphs_of_mlperf(self):
        """By round, benchmark, accelerator and context parallelism; both where no file tells."""
        sys.path.insert(0, str(IMPORTER.parent))
        from importer.graphs import mlperf_graphs
        step, both = "full_iteration", "full_iteration or none"
        for submission, benchmark, hardware, context, fp4, gpus, switch, graphs in [
                ("v3.1", "gpt3", "h100-sxm-80gb", 1, False, 512, "", "none"),
                ("v4.0", "gpt3", "h100-sxm-80gb", 1, False, 10752, "1", "transformer_engine"),
                ("v4.1", "llama2_70b_lora", "b200-sxm-180gb", 2, False, 8, "1", "transformer_engine"),
                ("v5.0", "llama31_405b", "h200-sxm-141gb", 2, False, 512, "", "none"),
                ("v5.0", "llama31_405b", "gb200-nvl72", 2, False, 512, "", step),
                ("v5.0", "llama2_70b_lora", "gb200-nvl72", 1, False, 8, "", "none"),
                ("v5.0", "llama2_70b_lora", "gb200-nvl72", 8, False, 72, "", "local"),
                ("v5.1", "llama31_8b", "h100-sxm-80gb", 1, False, 64, "", "none"),
                ("v5.1", "llama31_8b", "gb300-nvl72", 2, False, 72, "", step),
                ("v5.1", "llama31_8b", "b200-sxm-180gb", 1, True, 8, "", "local"),
                ("v5.1", "llama31_8b", "b300-sxm-270gb", 1, False, 8, "", both),
                ("v5.1", "llama2_70b_lora", "b300-sxm-270gb", 1, False, 8, "", "none or full_iteration"),
                ("v5.1", "llama2_70b_lora", "gb300-nvl72", 1, True, 8, "", step),
                ("v6.0", "llama31_8b", "gb300-nvl72", 1, True, 8, "", both)]:
            cells = {"hardware": hardware, "context_parallel_size": str(context), "world_size": str(gpus),
                     **({"fp4_format": "e2m1"} if fp4 else {})}
            self.assertEqual(mlperf_graphs(submission, benchmark, cells, switch), graphs,
                             (submission, benchmark, hardware, context))

    def test_recipes_of_megatron_bridge_recompute(self):
        sys.path.insert(0, str(IMPORTER.parent))
        from importer.bridge import recipe
        for model, system, precision, release, modules in [
                ("GPT OSS 120B", "DGX-H100", "BF16", "26.04", "layernorm,moe_act"),
                ("GPT OSS 120B", "DGX-GB300", "BF16", "26.04", None),
                ("GPT OSS 120B", "DGX-GB200", "FP8-MX", "26.06", None),
                ("DeepSeekV3", "DGX-GB200", "FP8-MX", "26.04", "mlp"),
                ("DeepSeekV3", "DGX-GB200", "FP8-MX", "26.06", "mla_up_proj"),
                ("DeepSeekV3", "DGX-GB300", "FP8-MX", "26.06", None),
                ("DeepSeekV3", "DGX-H100", "FP8", "25.11", "mla_up_proj,mlp"),
                ("DeepSeekV3 (dropless)", "DGX-H100", "FP8", "25.09", None),
                ("Qwen3_30B_a3B", "DGX-H100", "FP8", "26.04", None)]:
            row = summary(model=model, system=system, precision=precision, release=release)
            self.assertEqual(recipe(row).get("recompute_modules"), modules, (model, system, release))

    def test_features_are_those_of_the_reader(self):
        sys.path.insert(0, str(IMPORTER.parent))
        from importer.headers import FEATURES
        reader = (IMPORTER.parents[2] / "analysis/published/dialect/dialect_columns.hpp").read_text()
        block = reader.split("kFeatureColumns = {{")[1].split("}};")[0]
        self.assertEqual(dict(re.findall(r'\{"(\w+)", "([^"]*)"', block)), FEATURES)

    def test_hostile_files_do_not_stop_it(self):
        (self.root / "binary.csv").write_bytes(bytes(range(256)) * 10)
        (self.root / "empty.csv").write_text("")
        head = ",".join(SUMMARY)
        rows = ["1", ",".join("x" * 40), ",".join(["-1e999"] * 21)]
        (self.root / "ragged.csv").write_text("\n".join([head, *rows]) + "\n")
        counts, left = self.run_import(self.root)
        self.assertEqual(counts, {"ragged.csv": (0, 3)})
        self.assertEqual(left.count("ragged.csv row"), 3)

    @unittest.skipUnless(SOURCE.is_dir(), f"{SOURCE} is absent")
    def test_kernel_rates_are_those_of_the_source_in_any_order(self):
        rows = read(SOURCE / "simumax_kernel_efficiency.csv")
        random.seed(1)
        random.shuffle(rows)
        write(self.root / "kernels.csv", rows)
        done = subprocess.run([sys.executable, IMPORTER.parent / "import_kernels.py",
                               self.root / "kernels.csv",
                               self.root / "rates.csv"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        counted = sum(int(number) for number in re.findall(r"^(?:not in the table: )?(\d+)", done.stdout,
                                                           re.M))
        self.assertEqual(counted, len(rows))
        shipped = IMPORTER.parents[2] / "analysis/hardware/kernel_rates.csv"
        self.assertEqual((self.root / "rates.csv").read_text(), shipped.read_text(), "import it anew")

    @unittest.skipUnless(SOURCE.is_dir(), f"{SOURCE} is absent")
    def test_every_row_of_the_sources(self):
        counts, left = self.run_import(SOURCE)
        for name, (imported, others) in counts.items():
            rows = len(read(SOURCE / name))
            self.assertEqual(imported + others, rows, name)
            self.assertEqual(left.count(f"{name} row "), others, name)
        self.assertGreater(sum(imported for imported, _ in counts.values()), 900)
        for path in sorted(SHIPPED.iterdir()):
            self.assertEqual(path.read_text(), (self.out / path.name).read_text(), f"{path}: import it anew")
        done, report = self.validate()
        self.assertEqual(done.returncode, 0, done.stderr)
        for table in report["tables"]:
            for row in table["skipped"]:
                self.assertTrue(row["reason"].startswith("not modelled yet: "), row)

    @unittest.skipUnless(SOURCE.is_dir(), f"{SOURCE} is absent")
    def test_names_of_files_systems_and_pages_do_not_matter(self):
        """Other names of files, submitters, machines, configurations, recipes, test cases and pages."""
        texts = {"submitter", "config_file", "config_found_by", "step_source", "source", "recipe", "study",
                 "case", "memory_measured_in_case", "golden_tag", "commit", "paper", "network"}
        whole, _ = self.run_import(SOURCE)
        tables = {name: (self.figures(name), self.header(name))
                  for name in whole if (self.out / name).exists()}
        renamed, names = self.root / "renamed", {}
        renamed.mkdir()
        for path in SOURCE.glob("*.csv"):
            rows = read(path)
            columns = texts | ({"system"} if rows and "submitter" in rows[0] else set())
            for row in rows:
                row.update({column: names.setdefault(row[column], f"name {len(names)}")
                            for column in columns if row.get(column)})
            write(renamed / f"x_{path.name}", rows)
        self.run_import(renamed)
        for name, table in tables.items():
            self.assertEqual((self.figures(f"x_{name}"), self.header(f"x_{name}")), table, name)

    @unittest.skipUnless(SOURCE.is_dir(), f"{SOURCE} is absent")
    def test_the_order_of_rows_and_their_values_do_not_matter(self):
        whole, _ = self.run_import(SOURCE)
        tables = {name: self.figures(name) for name in whole if (self.out / name).exists()}
        for seed in range(4):
            random.seed(seed)
            shuffled = self.root / f"shuffled{seed}"
            shuffled.mkdir()
            for path in SOURCE.glob("*.csv"):
                rows = read(path)
                random.shuffle(rows)
                for column in rows[0] if seed else []:  # rows as nobody has measured them
                    if random.random() < 0.2 * seed:
                        values = [row[column] for row in rows]
                        random.shuffle(values)
                        for row, value in zip(rows, values):
                            row[column] = value
                write(shuffled / path.name, rows)
            counts, left = self.run_import(shuffled)
            for name, (imported, others) in counts.items():
                self.assertEqual(imported + others, sum(whole[name]), name)
            if seed == 0:
                for name, table in tables.items():
                    self.assertEqual(self.figures(name), table, name)
            else:
                self.assertIn("contradicts itself", left)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
