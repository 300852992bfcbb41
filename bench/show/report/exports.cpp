#include "bench/show/report/exports.hpp"

#include "bench/show/text/csv.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/output_json.hpp"

namespace plumbline {
namespace {

std::string value_in(const Record& record, const char* key) {
  for (const auto& [name, value] : record.config) {
    if (name == key) return value;
  }
  return "";
}

std::optional<std::int64_t> number_in(const Record& record, const char* key) {
  const std::string text = value_in(record, key);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// A figure as a CSV field; empty when it is not finite.
std::string figure(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "";
}

/// Micro-batches per step and replica: the global batch over micro-batch and data-parallel size.
std::string accumulations(const Record& record) {
  const auto global = number_in(record, "global_batch_size");
  const auto micro = number_in(record, "micro_batch_size");
  const auto data = number_in(record, "data_parallel_size");
  if (!global || !micro || !data || *micro <= 0 || *data <= 0) return "";
  if (*global / *micro / *data * *micro * *data != *global) return "";
  return fmt::format("{}", *global / *micro / *data);
}

template <class Report>
void add_counters(const Report& report, OrderedJson& benchmark) {
  const auto add = [&](const char* name, double value) {
    if (std::isfinite(value)) benchmark[name] = value;
  };
  add("peak_bytes", static_cast<double>(report.memory.peak.value));
  add("bubble_fraction", report.time.bubble_fraction);
  add("tokens_per_s", report.throughput.tokens_per_s);
  add("tokens_per_s_per_gpu", report.throughput.tokens_per_s_per_gpu);
  add("model_tflops_per_gpu", report.throughput.model_tflops_per_gpu);
  add("mfu", report.throughput.mfu);
}

template <class Report>
OrderedJson benchmark_of(const std::string& name, const Report& report, int samples) {
  const double milliseconds = report.time.step.value * 1e3;
  OrderedJson benchmark = {{"name", name},          {"run_name", name},          {"run_type", "iteration"},
                           {"repetitions", 1},      {"repetition_index", 0},     {"threads", 1},
                           {"iterations", samples}, {"real_time", milliseconds}, {"cpu_time", milliseconds},
                           {"time_unit", "ms"}};
  add_counters(report, benchmark);
  return benchmark;
}

}  // namespace

std::string to_megatron_bridge_csv(const std::vector<Record>& records) {
  std::string csv =
      "Model,#-GPUs,Precision,GBS,MBS,Sequence Length,FSDP,TP,PP,CP,VP,EP,GA,Tokens / sec / GPU,Model TFLOP "
      "/ "
      "sec / GPU,Schedule,ZeRO,Status,Step time / s,Predicted step time / s,Peak memory / bytes,Predicted "
      "peak memory / bytes,Predicted Tokens / sec / GPU,Predicted Model TFLOP / sec / GPU,Predicted MFU\r\n";
  for (const Record& record : records) {
    const auto* measured = record.measurement ? &*record.measurement : nullptr;
    const auto* predicted = record.prediction ? &*record.prediction : nullptr;
    const auto get = [&](const char* key) { return value_in(record, key); };
    const std::vector<std::string> fields = {
        get("model"),
        get("world_size"),
        get("precision"),
        get("global_batch_size"),
        get("micro_batch_size"),
        get("seq_length"),
        get("zero_stage") == "3" ? "1" : "0",
        get("tensor_model_parallel_size"),
        get("pipeline_model_parallel_size"),
        get("context_parallel_size"),
        get("virtual_pipeline_chunks"),
        get("expert_model_parallel_size"),
        accumulations(record),
        measured == nullptr ? "" : figure(measured->throughput.tokens_per_s_per_gpu),
        measured == nullptr ? "" : figure(measured->throughput.model_tflops_per_gpu),
        get("pipeline_schedule"),
        get("zero_stage"),
        std::string(name_of(record.status)),
        measured == nullptr ? "" : figure(measured->time.step.value),
        predicted == nullptr ? "" : figure(predicted->time.step.value),
        measured == nullptr ? "" : fmt::format("{}", measured->memory.peak.value),
        predicted == nullptr ? "" : fmt::format("{}", predicted->memory.peak.value),
        predicted == nullptr ? "" : figure(predicted->throughput.tokens_per_s_per_gpu),
        predicted == nullptr ? "" : figure(predicted->throughput.model_tflops_per_gpu),
        predicted == nullptr ? "" : figure(predicted->throughput.mfu)};
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (i > 0) csv += ',';
      csv += csv_field(fields[i]);
    }
    csv += "\r\n";
  }
  return csv;
}

std::string to_google_benchmark_json(const std::vector<Record>& records) {
  OrderedJson benchmarks = OrderedJson::array();
  for (const Record& record : records) {
    if (record.measurement && std::isfinite(record.measurement->time.step.value)) {
      benchmarks.push_back(benchmark_of(fmt::format("measured/{}", record.id), *record.measurement,
                                        record.measurement->samples));
    }
    if (record.prediction && std::isfinite(record.prediction->time.step.value))
      benchmarks.push_back(benchmark_of(fmt::format("predicted/{}", record.id), *record.prediction, 1));
  }
  OrderedJson context = {{"executable", "plumbline"}};
  if (!records.empty()) {
    const MachineReport& machine = records.front().machine;
    context["host_name"] = machine.host;
    context["cpu"] = machine.cpu;
    for (const auto& [name, version] : machine.versions) context[name] = version;
  }
  const OrderedJson json = {{"context", std::move(context)}, {"benchmarks", std::move(benchmarks)}};
  return output_json(json, 2) + '\n';
}

}  // namespace plumbline
