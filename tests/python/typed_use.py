"""Uses of the package that a strict type checker accepts."""

import pandas
import plumbline

prediction: plumbline.Prediction = plumbline.predict("gpt2-124m", hardware="h100", tp=1)
step: float = prediction.step_s
peak: int = prediction.peak_bytes
table: pandas.DataFrame = plumbline.search("gpt2-124m", gpus=2, gbs=4, hardware="h100", top=1)
sizes: pandas.DataFrame = plumbline.size("gpt2-124m", gpus=2, gbs=4, hardware="h100", tokens="1B")
times: pandas.DataFrame = plumbline.bench("operator", "gemm", "--time-limit", "0.01")
bubble: float = plumbline.schedule("1f1b", 2, 4).bubble_fraction
makespan: float = plumbline.simulate("1f1b", 2, 4, costs={"stages": [{"forward_us": 1.0}]}).makespan_us
version: str = plumbline.__version__
many: pandas.DataFrame = plumbline.predict_many(["gpt2-124m", {"model": "gpt2-124m"}], hardware="h100")
changed: pandas.DataFrame = plumbline.compare([{"tp": 2}], "gpt2-124m", hardware="h100")
swept: pandas.DataFrame = plumbline.sweep({"tp": [1, 2]}, "gpt2-124m", hardware="h100", progress=True)
short: pandas.DataFrame = plumbline.short_columns(table)
packed: float = plumbline.predict("gpt2-124m", hardware="h100", sequence_lengths=[512, 300]).step_s
series: "pandas.Series[float]" = prediction.to_series()
long_form: float = plumbline.schedule("1f1b", 2, microbatches=4).bubble_fraction


def tell(done: int, total: int) -> None:
    print(done, total)


told: pandas.DataFrame = plumbline.search("gpt2-124m", gpus=2, gbs=4, hardware="h100", progress=tell)
legal: bool = plumbline.legality("gpt2-124m", tp=5).legal
