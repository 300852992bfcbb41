#!/usr/bin/env python3
"""The package as a user has it. package_test.py [PROGRAM]"""

import contextlib
import importlib.metadata
import io
import json
import math
import os
import pathlib
import signal
import sys
import tempfile
import threading
import time
import types
import unittest
import unittest.mock

import pandas

import plumbline

KEYS = dict(
    model="llama-3.1-8b", hardware="h100", gpus=64, tp=2, pp=4, gbs=512, seq_length=4096, precision="bf16"
)


class Predictions(unittest.TestCase):
    def test_attributes_are_the_records(self):
        prediction = plumbline.predict(**KEYS)
        whole = prediction.to_dict()["prediction"]
        self.assertEqual(prediction.step_s, whole["time"]["step_s"])
        self.assertEqual(prediction.peak_bytes, whole["memory"]["peak_bytes"])
        self.assertEqual(prediction.tokens_per_s, whole["throughput"]["tokens_per_s"])
        self.assertEqual(prediction.mfu, whole["throughput"]["mfu"])
        self.assertEqual(len(prediction.memory["ranks"]), 64)
        self.assertEqual(prediction.config["tensor_model_parallel_size"], 2)
        for name in ("traffic", "device_memory", "lanes"):
            self.assertEqual(getattr(prediction, name), whole[name])
        self.assertIn("tokens/s", prediction._repr_html_())

    def test_forms_of_a_configuration(self):
        expected = plumbline.predict(**KEYS).step_s
        self.assertEqual(plumbline.predict(KEYS).step_s, expected)
        self.assertEqual(plumbline.predict({**KEYS, "tp": 8}, tp=2).step_s, expected)
        rest = {key: value for key, value in KEYS.items() if key != "model"}
        self.assertEqual(plumbline.predict("llama-3.1-8b", **rest).step_s, expected)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "run.yaml"
            path.write_text("".join(f"{key}: {value}\n" for key, value in KEYS.items()))
            self.assertEqual(plumbline.predict(path).step_s, expected)

    def test_errors_are_one_line(self):
        for call, kind, text in [
            (
                lambda: plumbline.predict(KEYS, tp=3),
                plumbline.InputError,
                "world_size: found 64",
            ),
            (lambda: plumbline.predict("no.yaml"), ValueError, "no such file"),
            (lambda: plumbline.predict(KEYS, colour=3), plumbline.InputError, "unknown key"),
            (
                lambda: plumbline.search("llama-3.1-70b", gpus=1, gbs=1, hardware="h100"),
                plumbline.DoesNotFit,
                "fits in",
            ),
            (lambda: plumbline.schedule("1f2b", 4, 8), plumbline.InputError, "such as 1f1b"),
            (lambda: plumbline.schedule("1f1b", 4096, 1 << 20), plumbline.InputError, "microbatches: found"),
            (lambda: plumbline.load_records("/nowhere"), plumbline.InputError, "/nowhere"),
            (lambda: plumbline.load_trace("/nowhere"), plumbline.InputError, "/nowhere"),
            (lambda: plumbline.ask({"ask": "nothing"}), plumbline.InputError, "ask: found"),
        ]:
            with self.assertRaises(kind) as caught:
                call()
            self.assertIn(text, str(caught.exception))
            self.assertNotIn("\n", str(caught.exception))

    def test_version_is_the_packages(self):
        self.assertEqual(plumbline.__version__, importlib.metadata.version("plumbline"))

    def test_series_has_the_main_figures(self):
        series = plumbline.predict(KEYS).to_series()
        self.assertIsInstance(series, pandas.Series)
        names = ["verdict", "chance", "step_s", "tokens_per_s", "mfu", "peak_bytes", "needed_bytes"]
        self.assertEqual(list(series.index), names)
        self.assertEqual(series.step_s, plumbline.predict(KEYS).step_s)

    def test_lengths_are_a_list_or_an_array(self):
        lengths = [2000, 1000, 3000]
        packed = plumbline.predict(KEYS, sequence_lengths=lengths)
        self.assertLess(packed.step_s, plumbline.predict(KEYS).step_s)
        self.assertEqual(packed.to_dict()["sequence_lengths"]["documents"], 3)
        for other in (pandas.Series(lengths), pandas.Series(lengths).to_numpy(), (each for each in lengths)):
            self.assertEqual(plumbline.predict(KEYS, sequence_lengths=other).step_s, packed.step_s)
        with self.assertRaises(plumbline.InputError) as caught:
            plumbline.predict(KEYS, sequence_lengths=[1, 5000])
        self.assertIn("sequence_lengths[1]: found 5000", str(caught.exception))

    def test_reinforcement_learning(self):
        keys = {"model": "qwen2.5-7b", "hardware": "h100", "software": "megatron-core", "gpus": 8, "tp": 2,
                "seq_length": 2048, "prompt_length": 512, "max_new_tokens": 1536, "gbs": 64,
                "num_prompts_per_step": 16, "num_generations_per_prompt": 8, "rollout_software": "vllm"}
        made = plumbline.predict(keys, task="grpo")
        self.assertAlmostEqual(made.phases.time_s.sum(), made.step_s, places=9)
        self.assertIn("rollout", made.phases.index)
        self.assertTrue(math.isnan(made.mfu))
        self.assertIn("step time", made._repr_html_())
        del keys["tp"]
        many = plumbline.predict_many([{"tp": 1}, {"tp": 2}], task="grpo", **keys)
        self.assertEqual(many.step_s[1], made.step_s)
        with self.assertRaises(plumbline.InputError):
            plumbline.predict(KEYS).phases

    def test_legality(self):
        self.assertTrue(plumbline.legality(**KEYS).legal)
        refused = plumbline.legality(KEYS, tp=3)
        self.assertFalse(refused.legal)
        self.assertIn("world_size: found 64", refused.reason)


class Tables(unittest.TestCase):
    def test_search(self):
        best = plumbline.search("gpt2-124m", gpus=4, gbs=16, hardware="h100", top=3, threads=1)
        self.assertEqual(len(best), 3)
        self.assertTrue(best.step_s.is_monotonic_increasing)
        self.assertGreater(best.attrs["configurations"], 3)
        keys = {
            key: best.iloc[0][key] for key in ("tensor_model_parallel_size", "micro_batch_size", "zero_stage")
        }
        self.assertIn("--gpus 4", best.command[0])
        self.assertEqual(set(keys), {"tensor_model_parallel_size", "micro_batch_size", "zero_stage"})

    def test_size(self):
        sizes = plumbline.size(
            "gpt2-124m", tokens="10B", days=3, price="h100=2/h", gbs=64, hardware="h100", threads=1
        )
        self.assertTrue(sizes.days.is_monotonic_decreasing)
        fewest = sizes.attrs["fewest"]
        self.assertIn(fewest["gpus"], list(sizes.gpus))
        self.assertLessEqual(fewest["days"], 3)
        self.assertAlmostEqual(fewest["cost"], 2 * fewest["gpu_hours"])

    def test_compare(self):
        table = plumbline.compare([{"tp": 4}, {"tp": 3}], KEYS)
        self.assertEqual(table.step_s[0], plumbline.predict(KEYS).step_s)
        self.assertEqual(table.step_s[1], plumbline.predict(KEYS, tp=4).step_s)
        self.assertIn("world_size: found 64", table.error[2])

    def test_sweep(self):
        table = plumbline.sweep({"seq_length": [4096, 8192], "tp": [2, 4]}, KEYS, sequence_lengths=[4096])
        self.assertEqual(list(table.seq_length[1:]), [4096, 4096, 8192, 8192])
        longest = plumbline.predict(KEYS, seq_length=8192, tp=4, sequence_lengths=[4096])
        self.assertEqual(table.step_s[4], longest.step_s)

    def test_predict_many(self):
        rest = {key: value for key, value in KEYS.items() if key != "model"}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "run.yaml"
            path.write_text("model: gpt2-124m\n")
            configs = [{"model": "llama-3.1-8b", "tp": 3}, "llama-3.1-8b", path, {"model": "qwen2.5-0.5b"}]
            for key in ("tp", "seq_length"):
                del rest[key]
            table = plumbline.predict_many(configs, **rest, seq_length=1024)
            self.assertEqual(table.config[2], str(path))
        figures = ["step_s", "peak_bytes", "tokens_per_s", "fits", "verdict", "chance", "error"]
        self.assertEqual(list(table.columns), ["model", "tp", "config", *figures])
        self.assertIn("world_size: found 64", table.error[0])
        self.assertTrue(table.error[1:].isna().all())
        self.assertEqual(table.step_s[1], plumbline.predict("llama-3.1-8b", **rest, seq_length=1024).step_s)
        self.assertTrue(table.step_s[1:].gt(0).all())
        for one in ("llama-3.1-8b", KEYS):
            with self.assertRaises(plumbline.InputError):
                plumbline.predict_many(one)

    def test_short_columns(self):
        table = plumbline.search("gpt2-124m", gpus=4, gbs=16, hardware="h100", top=2, threads=1)
        short = plumbline.short_columns(table)
        self.assertEqual(len(short.columns), len(set(short.columns)))
        for name, whole in {
            "tp": "tensor_model_parallel_size",
            "pp": "pipeline_model_parallel_size",
            "mbs": "micro_batch_size",
        }.items():
            self.assertEqual(list(short[name]), list(table[whole]))
            self.assertNotIn(whole, short)
            self.assertIn(whole, table)
        self.assertEqual(list(short.step_s), list(table.step_s))
        self.assertEqual(short.attrs["configurations"], table.attrs["configurations"])
        records = pandas.DataFrame({"config.tensor_model_parallel_size": [2], "config.seq_length": [8]})
        self.assertEqual(list(plumbline.short_columns(records)), ["tp", "config.seq_length"])

    def test_validate(self):
        tables = plumbline.validate()
        self.assertIn("korthikanti_table5", set(tables.name))
        self.assertGreater(len(plumbline.validate(rows=True)), 500)

    def test_traces_and_records(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / "t.json"
            trace.write_text(
                json.dumps(
                    {
                        "traceEvents": [
                            {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "predicted"}},
                            {
                                "ph": "X",
                                "name": "0F0",
                                "pid": 0,
                                "tid": 1,
                                "ts": 0,
                                "dur": 5,
                                "args": {"stage": 0},
                            },
                        ]
                    }
                )
            )
            events = plumbline.load_trace(trace)
            self.assertEqual(list(events.process), ["predicted"])
            self.assertEqual(list(events.duration_us), [5])


class Schedules(unittest.TestCase):
    def test_schedule(self):
        schedule = plumbline.schedule("1f1b", 4, 8)
        self.assertEqual(schedule.ranks, 4)
        self.assertAlmostEqual(schedule.bubble_fraction, 3 / 11)
        self.assertEqual(schedule.actions[3][:2], ["3F0", "3B0"])
        self.assertTrue(schedule._repr_svg_().startswith("<svg"))

    def test_microbatches_are_m(self):
        for make in (plumbline.schedule, plumbline.simulate):
            costs = {"costs": {"stages": [{"forward_us": 100, "backward_us": 200}]}}
            if make is plumbline.schedule:
                costs = {}
            expected = make("1f1b", 4, 8, **costs).to_dict()
            self.assertEqual(make("1f1b", 4, microbatches=8, **costs).to_dict(), expected)
            self.assertNotEqual(make("1f1b", 4, **costs).to_dict(), expected)
            with self.assertRaises(plumbline.InputError) as caught:
                make("1f1b", 4, 8, microbatches=8, **costs)
            self.assertIn("microbatches: found 8 with m=8", str(caught.exception))

    def test_simulate(self):
        costs = {"stages": [{"forward_us": 100, "backward_us": 200}]}
        self.assertAlmostEqual(plumbline.simulate("1f1b", 4, 8, costs=costs).makespan_us, 3300)
        with self.assertRaises(plumbline.InputError):
            plumbline.simulate("1f1b", 4, 8, costs={})


SEARCH = dict(gpus=8, gbs=64, hardware="h100", threads=1)


class Kernel:
    """IPython within a notebook, as far as the package asks for it."""

    kernel = object()

    def __init__(self):
        self.texts = []

    def get_ipython(self):
        return self

    def display(self, data, raw, display_id):
        assert raw and display_id
        self.update(data, raw)
        return self

    def update(self, data, raw):
        self.texts.append(data["text/plain"])


class Progress(unittest.TestCase):
    def test_a_callback_is_told(self):
        told = []
        table = plumbline.search("gpt2-124m", progress=lambda *both: told.append(both), **SEARCH)
        self.assertTrue(told)
        self.assertTrue(all(0 <= done <= total for done, total in told))
        self.assertEqual(list(table.step_s), list(plumbline.search("gpt2-124m", **SEARCH).step_s))
        told.clear()
        keys = dict(tokens="10B", days=3, gbs=64, hardware="h100,b200", threads=2)
        plumbline.size("gpt2-124m", progress=lambda *both: told.append(both), **keys)
        self.assertEqual(told, [(done + 1, 0) for done in range(len(told))])
        told.clear()
        plumbline.sweep({"tp": [1, 2]}, KEYS, progress=lambda *both: told.append(both))
        self.assertEqual(told, [(1, 2), (2, 2)])
        told.clear()
        plumbline.predict_many(["gpt2-124m"], hardware="h100", progress=lambda *both: told.append(both))
        self.assertEqual(told, [(1, 1)])

    def test_an_exception_of_the_callback_ends_the_question(self):
        def refuse(done, total):
            raise KeyError("enough")

        for hardware in ("h100", "h100,b200"):
            with self.assertRaisesRegex(KeyError, "enough"):
                plumbline.size("gpt2-124m", tokens="10B", days=3, gbs=64, hardware=hardware, progress=refuse)
        with self.assertRaisesRegex(KeyError, "enough"):
            plumbline.search("gpt2-124m", progress=refuse, **SEARCH)

    def test_true_rewrites_one_line(self):
        heard = io.StringIO()
        with contextlib.redirect_stderr(heard):
            plumbline.search("gpt2-124m", **SEARCH)
            self.assertEqual(heard.getvalue(), "")
            plumbline.search("gpt2-124m", progress=True, **SEARCH)
        self.assertRegex(heard.getvalue(), r"^(\rsearch: \d+ % *)+\n$")

    def test_a_notebook_has_a_display(self):
        kernel = Kernel()
        heard = io.StringIO()
        display = types.SimpleNamespace(display=kernel.display)
        with unittest.mock.patch.dict(sys.modules, {"IPython": kernel, "IPython.display": display}):
            with contextlib.redirect_stderr(heard):
                plumbline.search("gpt2-124m", progress=True, **SEARCH)
        self.assertEqual(heard.getvalue(), "")
        self.assertRegex(kernel.texts[-1], r"^search: \d+ %$")


class Threads(unittest.TestCase):
    def test_others_run_meanwhile(self):
        ticks = []
        searching = threading.Thread(
            target=plumbline.search,
            args=("llama-3.1-8b",),
            kwargs=dict(gpus=64, gbs=512, hardware="h100", threads=1),
        )
        searching.start()
        while searching.is_alive():
            ticks.append(time.monotonic())
            time.sleep(0.01)
        self.assertGreater(len(ticks), 5)

    def test_ctrl_c_ends_a_search(self):
        timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            for _ in range(1000):
                plumbline.search("llama-3.1-8b", gpus=128, gbs=1024, hardware="h100", threads=1)


@unittest.skipUnless(len(sys.argv) > 1, "no program")
class Program(unittest.TestCase):
    def test_matrix_and_records(self):
        os.environ["PLUMBLINE_PROGRAM"] = sys.argv[1]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "m.yaml"
            path.write_text(
                "model: gpt2-124m\nhardware: h100-sxm-80gb\nglobal_batch_size: 4\nmatrix:\n"
                "  tensor_model_parallel_size: [1, 2, 5]\n"
            )
            records = plumbline.matrix(path, pathlib.Path(folder) / "out", "--predict-only")
            self.assertEqual(list(records.status), ["ok", "ok", "invalid"])
            self.assertEqual(
                records["prediction.time.step_s"][1],
                plumbline.predict("gpt2-124m", hardware="h100", gbs=4, tp=2).step_s,
            )
            with self.assertRaises(plumbline.InputError) as caught:
                plumbline.matrix(pathlib.Path(folder) / "no.yaml", pathlib.Path(folder) / "out")
            self.assertIn("no such file", str(caught.exception))
        with self.assertRaises(plumbline.InputError):
            plumbline.run("gpt2-124m", tp=5)

    def test_bench(self):
        os.environ["PLUMBLINE_PROGRAM"] = sys.argv[1]
        quick = ["--time-limit", "0.01"]
        products = plumbline.bench("operator", "gemm", "--shape", "m=8,n=8,k=8", *quick)
        self.assertEqual(list(products["shape.k"]), [8])
        self.assertGreater(products["batched.seconds"][0], 0)
        messages = plumbline.bench("collective", "all-reduce", "--sizes", "64", *quick)
        self.assertEqual(list(messages.name), ["AllReduce", "AllReduce"])
        with self.assertRaises(plumbline.InputError):
            plumbline.bench("operator", "all-reduce")


if __name__ == "__main__":
    assert pandas.__version__
    unittest.main(argv=sys.argv[:1])
