// Records in the forms that other programs read.
#pragma once

#include <string>
#include <vector>

#include "bench/record/record.hpp"

namespace plumbline {

/// CSV with the columns of Megatron-Bridge's performance summary (Model, #-GPUs, Precision, GBS, MBS,
/// Sequence Length, FSDP, TP, PP, CP, VP, EP, GA, Tokens / sec / GPU, Model TFLOP / sec / GPU), measured.
/// Further columns: schedule, ZeRO stage, status, and step time and peak memory measured and predicted. One
/// row per record; unknown figures are empty. FSDP is 1 with ZeRO stage 3.
std::string to_megatron_bridge_csv(const std::vector<Record>& records);

/// Google Benchmark's JSON, which its compare.py reads: a benchmark "measured/<id>" for every measured
/// record, and "predicted/<id>" for every predicted one. The step time is both real and processor time, in
/// milliseconds; the other figures are counters.
std::string to_google_benchmark_json(const std::vector<Record>& records);

}  // namespace plumbline
