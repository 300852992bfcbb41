// The figures of one training step, predicted or measured, and the one table of them that records, tables and
// reports read.
#pragma once

#include <limits>
#include <optional>
#include <string_view>
#include <variant>

#include "core/base/units.hpp"
#include "core/trace/collective_overlap.hpp"

namespace plumbline {

/// Times of one training step, each the mean over pipeline ranks: step ≈ compute + exposed_tensor +
/// exposed_pipeline
/// + exposed_data + exposed_offload + optimizer. NaN: not measured (an emulated run without times).
struct StepTime {
  Seconds step;
  double bubble_ratio = 0;       // idle ÷ compute over the pipeline's part of the step
  double bubble_fraction = 0;    // idle ÷ (idle + compute)
  Seconds compute;               // forward and backward without communication, recomputation included
  Seconds exposed_tensor;        // tensor-parallel collectives inside them, and their slowdown of computation
  Seconds exposed_pipeline;      // waiting for other stages, messages included
  Seconds exposed_data;          // gathers and reductions over replicas that computation does not hide
  Seconds exposed_offload{};     // copies between device and host that computation does not hide
  Seconds optimizer;             // its reductions, gradient norm, update, gathering of values, clearing
  Seconds exposed_vocabulary{};  // part of exposed_pipeline: waiting for vocabulary-parallel collectives
  /// The same by kind, with their total and overlapped time; nothing without vocabulary parallelism.
  std::optional<VocabularyOverlap> vocabulary_collectives{};
};

struct Throughput {
  double tokens_per_s = 0;
  double tokens_per_s_per_gpu = 0;
  double model_tflops_per_gpu = 0;  // model FLOPs (analysis/work/flops.hpp) per rank and second, in 10^12
  double mfu = 0;                   // model_tflops_per_gpu ÷ peak_tflops; a teacher's forward counts
  double peak_tflops = 0;           // of one rank's device in the storage type
  double hfu = 0;                   // the same with the FLOPs that are executed, recomputation included
};

enum class FigureUnit { seconds, ratio, per_second };

/// One number of a StepTime or Throughput.
template <class Owner>
struct Figure {
  std::string_view key;    // in JSON; in CSV behind predicted_ or measured_
  std::string_view title;  // for people
  FigureUnit unit;
  std::variant<Seconds Owner::*, double Owner::*> member;
  bool in_csv = true;
  bool timed = true;  // not known if steps are not timed
  /// Value for an older record that lacks the key; nothing: every record has it.
  std::optional<double> when_lacking{};

  double of(const Owner& owner) const {
    const auto* seconds = std::get_if<Seconds Owner::*>(&member);
    return seconds != nullptr ? (owner.**seconds).value : owner.*std::get<double Owner::*>(member);
  }
  void set(Owner& owner, double value) const {
    if (const auto* seconds = std::get_if<Seconds Owner::*>(&member)) {
      owner.** seconds = {value};
    } else {
      owner.*std::get<double Owner::*>(member) = value;
    }
  }
};

/// In the order of the record.
inline constexpr Figure<StepTime> kTimeFigures[] = {
    {"step_s", "step time", FigureUnit::seconds, &StepTime::step},
    {"bubble_ratio", "bubble ratio, idle/compute", FigureUnit::ratio, &StepTime::bubble_ratio},
    {"bubble_fraction", "bubble fraction, idle/step", FigureUnit::ratio, &StepTime::bubble_fraction},
    {"compute_s", "compute", FigureUnit::seconds, &StepTime::compute},
    {"exposed_tensor_s", "exposed TP/CP/EP communication", FigureUnit::seconds, &StepTime::exposed_tensor},
    {"exposed_pipeline_s", "pipeline bubble (idle)", FigureUnit::seconds, &StepTime::exposed_pipeline},
    {"exposed_data_s", "exposed DP communication", FigureUnit::seconds, &StepTime::exposed_data},
    {"exposed_offload_s", "exposed CPU offload copies", FigureUnit::seconds, &StepTime::exposed_offload,
     false, true, 0.0},
    {"optimizer_s", "optimizer", FigureUnit::seconds, &StepTime::optimizer},
    {"exposed_vocabulary_s", "exposed vocabulary collectives", FigureUnit::seconds,
     &StepTime::exposed_vocabulary, true, true, 0.0},
};
inline constexpr Figure<Throughput> kThroughputFigures[] = {
    {"tokens_per_s", "tokens/s", FigureUnit::per_second, &Throughput::tokens_per_s},
    {"tokens_per_s_per_gpu", "tokens/s/GPU", FigureUnit::per_second, &Throughput::tokens_per_s_per_gpu,
     false},
    {"model_tflops_per_gpu", "model TFLOP/s/GPU", FigureUnit::per_second, &Throughput::model_tflops_per_gpu,
     false},
    {"mfu", "MFU", FigureUnit::ratio, &Throughput::mfu},
    {"hfu", "HFU", FigureUnit::ratio, &Throughput::hfu, true, true, std::numeric_limits<double>::quiet_NaN()},
    {"peak_tflops", "peak TFLOP/s/GPU", FigureUnit::per_second, &Throughput::peak_tflops, false, false},
};

/// The figure of that key; an unknown key does not compile.
consteval const Figure<StepTime>& time_figure(std::string_view key) {
  for (const auto& figure : kTimeFigures) {
    if (figure.key == key) return figure;
  }
  throw "no time has this key";
}
consteval const Figure<Throughput>& throughput_figure(std::string_view key) {
  for (const auto& figure : kThroughputFigures) {
    if (figure.key == key) return figure;
  }
  throw "no throughput has this key";
}

}  // namespace plumbline
