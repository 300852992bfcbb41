#include "bench/show/logs/mllog.hpp"

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/show/logs/record_scalars.hpp"
#include "core/base/output_json.hpp"

namespace plumbline {
namespace {

constexpr const char* kPoint = "POINT_IN_TIME";

/// Configuration keys with the names of mlperf_logging's constants.py.
constexpr std::array<std::pair<const char*, const char*>, 12> kParameters = {
    {{"seed", "seed"},
     {"global_batch_size", "global_batch_size"},
     {"micro_batch_size", "micro_batch_size"},
     {"seq_length", "max_sequence_length"},
     {"tensor_model_parallel_size", "tensor_parallelism"},
     {"pipeline_model_parallel_size", "pipeline_parallelism"},
     {"context_parallel_size", "context_parallelism"},
     {"expert_model_parallel_size", "expert_parallelism"},
     {"optimizer", "opt_name"},
     {"learning_rate", "opt_base_learning_rate"},
     {"weight_decay", "opt_weight_decay"},
     {"clip_grad", "opt_gradient_clip_norm"}}};

class LogWriter {
 public:
  void add(const char* name_space, double unix_s, const char* type, const std::string& key, OrderedJson value,
           OrderedJson metadata = OrderedJson::object()) {
    const OrderedJson line = {
        {"namespace", name_space},   {"time_ms", static_cast<std::int64_t>(std::llround(unix_s * 1e3))},
        {"event_type", type},        {"key", key},
        {"value", std::move(value)}, {"metadata", std::move(metadata)}};
    text_ += ":::MLLOG " + output_json(line, -1) + "\n";
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

/// A number where the text is one.
OrderedJson value_of_text(const std::string& text) {
  OrderedJson value = OrderedJson::parse(text, nullptr, false);
  return value.is_number() ? value : OrderedJson(text);
}

OrderedJson known_or_null(double value) {
  return std::isfinite(value) ? OrderedJson(value) : OrderedJson();
}

void add_step(LogWriter& log, const StepClock& clock, std::int64_t step, double loss, std::int64_t samples) {
  OrderedJson stats = OrderedJson::object();
  if (std::isfinite(loss)) stats["loss"] = loss;
  if (const auto seconds = clock.seconds(step)) {
    stats["train_step_time"] = *seconds;
    if (samples > 0 && *seconds > 0) stats["throughput"] = static_cast<double>(samples) / *seconds;
  }
  if (stats.empty()) return;
  OrderedJson metadata = {{"step_num", step}};
  if (samples > 0) metadata["samples_count"] = step * samples;
  log.add("", clock.unix_s(step), kPoint, "tracked_stats", std::move(stats), std::move(metadata));
}

}  // namespace

std::string mllog_lines(const Record& record, double end_unix_s) {
  LogWriter log;
  const StepClock clock(record, end_unix_s);
  const double start = clock.start_unix_s();
  for (const auto& [key, name] : kParameters) {
    for (const auto& [own, text] : record.config)
      if (own == key) log.add("", start, kPoint, name, value_of_text(text));
  }
  if (clock.steps() > 0) log.add("", start, kPoint, "max_steps", clock.steps());
  log.add("", start, "INTERVAL_START", "run_start", nullptr);
  const std::int64_t samples = number_of(record, "global_batch_size").value_or(0);
  for (std::int64_t step = 1; record.measurement && step <= clock.steps(); ++step) {
    const std::vector<double>& losses = record.measurement->losses;
    add_step(log, clock, step,
             step <= std::ssize(losses) ? losses[static_cast<std::size_t>(step) - 1] : std::nan(""), samples);
  }
  log.add("", end_unix_s, "INTERVAL_END", "run_stop", nullptr,
          {{"status", record.status == Status::ok ? "success" : "aborted"}});
  for (const RunFigure& figure : run_figures(record)) {
    log.add("plumbline", end_unix_s, kPoint, figure.name, known_or_null(figure.measured),
            {{"predicted", known_or_null(figure.predicted)}});
  }
  return log.take();
}

}  // namespace plumbline
