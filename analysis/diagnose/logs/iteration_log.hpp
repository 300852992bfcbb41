// Iteration lines of training logs: Megatron-LM, NeMo, torchtitan, DeepSpeed and Hugging Face's Trainer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

inline constexpr std::size_t kMostLogLines = 20'000'000;

/// Figures of one iteration; NaN: not in the line.
struct IterationLine {
  std::int64_t iteration = -1;  // -1: not in the line
  double step_s;
  double tokens_per_s;   // of one GPU
  double samples_per_s;  // of all GPUs
  double tflops_per_gpu;
  double memory_bytes;  // peak of one GPU
  double loss;
};

struct IterationLog {
  std::string framework;  // megatron-lm, nemo, torchtitan, deepspeed, trainer
  std::vector<IterationLine> lines;
};

/// Iterations of the framework that most lines are of, in their order; lines of others and colours of a
/// terminal are skipped. The file is read line by line. Throws InputError without any iteration.
IterationLog read_iteration_log(const std::string& path);
/// One line. Returns true if it is an iteration; `framework` is then its name.
bool read_iteration(std::string_view line, IterationLine& read, std::string_view& framework);

/// Steps of a log without warm-up.
struct IterationSummary {
  std::string framework;
  std::int64_t iterations = 0;                 // that are counted
  std::int64_t warm_up = 0;                    // first lines that are left out
  double median_s = 0, low_s = 0, high_s = 0;  // step time, and where 90 % of steps are
  double spread = 0;                           // half the interquartile range over the median
  double drift = 0;                            // relative change from the first to the last third
  double tokens_per_s = 0;                     // median of one GPU; NaN: not in the log
  double tflops_per_gpu = 0;
  double memory_bytes = 0;
  std::vector<IterationLine> outliers;  // steps far above the median, the longest first
};

/// Step times come from the lines, or from rates where the log has only those and `tokens_per_gpu` (of a
/// step) or `samples` (of a step) are known; 0: not known. Throws InputError for a log without a step time.
IterationSummary summary_of(const IterationLog& log, double tokens_per_gpu, double samples);

}  // namespace plumbline
