#include "bench/views/search_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace plumbline {
namespace {

using cluster::Candidate;
using cluster::Job;
using cluster::Recomputation;
using Settings = std::vector<std::pair<std::string, std::string>>;

constexpr std::array<const char*, 2> kNotSearched = {"context_parallel_size", "expert_model_parallel_size"};

std::string_view name_of(Recomputation recomputation) {
  switch (recomputation) {
    case Recomputation::none:
      return "none";
    case Recomputation::selective:
      return "selective";
    case Recomputation::full:
      return "full";
  }
  return "none";
}

/// The configuration keys of a candidate, as a run's file would set them.
Settings settings_of(const Candidate& c) {
  const Job& job = c.job;
  Settings settings = {
      {"tensor_model_parallel_size", std::to_string(job.tensor)},
      {"pipeline_model_parallel_size", std::to_string(job.pipeline)},
      {"data_parallel_size", std::to_string(job.data)},
      {"virtual_pipeline_chunks", std::to_string(job.chunks)},
      {"pipeline_schedule", cluster::search_schedules()[c.schedule]},
      {"micro_batch_size", std::to_string(job.micro_batch)},
      {"sequence_parallel", job.sequence_parallel ? "true" : "false"},
      {"recompute_granularity", std::string(name_of(job.recomputation))},
      {"recompute_num_layers", fmt::format("{:.0f}", job.recompute_layers)},
      {"zero_stage", std::to_string(job.zero)},
      {"vocab_parallel", std::string(vocab_parallel_name(job.vocabulary))},
      {"layer_distribution", job.balanced ? "balanced" : "even"},
      {"grad_dtype", job.half_gradients ? "same" : "fp32"},
  };
  return settings;
}

nlohmann::ordered_json json_of(const Candidate& c) {
  nlohmann::ordered_json config;
  for (const auto& [key, value] : settings_of(c)) {
    const bool number = !value.empty() && value.find_first_not_of("0123456789") == std::string::npos;
    if (number) {
      config[key] = std::stoi(value);
    } else if (value == "true" || value == "false") {
      config[key] = value == "true";
    } else {
      config[key] = value;
    }
  }
  return {{"config", config},
          {"step_s", c.step_s},
          {"peak_bytes", c.peak_bytes},
          {"compute_s", c.parts.compute},
          {"exposed_tensor_s", c.parts.tensor},
          {"exposed_pipeline_s", c.parts.pipeline},
          {"exposed_data_s", c.parts.data},
          {"optimizer_s", c.parts.optimizer}};
}

std::string table_of(const std::vector<Candidate>& list) {
  std::string text = fmt::format("{:>9} {:>8} {:>8} {:>7} {:>7} {:>6} {:>6}  {}\n", "step s", "GiB",
                                 "compute", "tensor", "pipe", "data", "optim", "configuration");
  for (const Candidate& c : list) {
    text += fmt::format("{:>9.4f} {:>8.2f} {:>8.3f} {:>7.3f} {:>7.3f} {:>6.3f} {:>6.3f}  {}\n", c.step_s,
                        c.peak_bytes / kBytesPerGiB, c.parts.compute, c.parts.tensor, c.parts.pipeline,
                        c.parts.data, c.parts.optimizer, describe_candidate(c));
  }
  return text;
}

}  // namespace

std::string describe_candidate(const Candidate& c) {
  const Job& job = c.job;
  std::string text = fmt::format("tp {} pp {} dp {} mbs {} {}", job.tensor, job.pipeline, job.data,
                                 job.micro_batch, cluster::search_schedules()[c.schedule]);
  if (job.chunks > 1) text += fmt::format(" chunks {}", job.chunks);
  if (job.sequence_parallel) text += " sp";
  if (job.recomputation != Recomputation::none)
    text += fmt::format(" recompute {}", name_of(job.recomputation));
  if (job.recomputation == Recomputation::full) text += fmt::format("/{:.0f}", job.recompute_layers);
  if (job.zero > 0) text += fmt::format(" zero {}", job.zero);
  if (job.vocabulary != VocabPasses::none) text += fmt::format(" {}", vocab_parallel_name(job.vocabulary));
  if (job.balanced) text += " balanced";
  if (job.half_gradients) text += " grad same";
  return text;
}

std::string why_second(const Candidate& first, const Candidate& second) {
  const Settings a = settings_of(first);
  const Settings b = settings_of(second);
  std::string differences;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].second == b[i].second) continue;
    differences += fmt::format("{}{} {} instead of {}", differences.empty() ? "" : ", ", a[i].first,
                               b[i].second, a[i].second);
  }
  const std::array<std::pair<const char*, double>, 5> parts = {
      {{"kernels", second.parts.compute - first.parts.compute},
       {"tensor-parallel communication", second.parts.tensor - first.parts.tensor},
       {"pipeline waiting", second.parts.pipeline - first.parts.pipeline},
       {"data-parallel communication", second.parts.data - first.parts.data},
       {"optimizer", second.parts.optimizer - first.parts.optimizer}}};
  const auto grown = std::max_element(parts.begin(), parts.end(),
                                      [](const auto& x, const auto& y) { return x.second < y.second; });
  const double loss = second.step_s / first.step_s - 1;
  if (loss < 1e-6) {
    return fmt::format("as fast, {:.2f} GiB against {:.2f}: {}", second.peak_bytes / kBytesPerGiB,
                       first.peak_bytes / kBytesPerGiB, differences);
  }
  return fmt::format("{:.2f} % slower ({}): {} {:+.1f} ms, all parts together {:+.1f} ms", 100 * loss,
                     differences, grown->first, 1e3 * grown->second, 1e3 * (second.step_s - first.step_s));
}

std::string search_text(const cluster::SearchResult& result, const SearchContext& context) {
  std::string text =
      fmt::format("{} configurations on {}, {} within {:.2f} GiB, {:.2f} s\n\n", result.configurations,
                  context.machine, result.fitting, context.memory_budget / kBytesPerGiB, context.seconds);
  text += table_of(result.best);
  if (result.best.size() > 1) {
    text += fmt::format("\nwhy not the second: {}\n", why_second(result.best[0], result.best[1]));
  }
  // Steps of less than three percent are left out of the text; the JSON has them all.
  std::vector<Candidate> shown;
  for (const Candidate& c : result.front) {
    if (shown.empty() || c.step_s < 0.97 * shown.back().step_s) shown.push_back(c);
  }
  text += "\nless memory against less time (no other is both smaller and faster):\n";
  text += table_of(shown);
  text += fmt::format("\nnot searched: {} (training does not run them)\n", fmt::join(kNotSearched, ", "));
  return text;
}

std::string search_json(const cluster::SearchResult& result, const SearchContext& context) {
  nlohmann::ordered_json json;
  json["hardware"] = context.machine;
  json["memory_budget_bytes"] = context.memory_budget;
  json["configurations"] = result.configurations;
  json["fitting"] = result.fitting;
  json["seconds"] = context.seconds;
  json["not_searched"] = kNotSearched;
  auto& best = json["best"] = nlohmann::ordered_json::array();
  for (const Candidate& c : result.best) best.push_back(json_of(c));
  if (result.best.size() > 1) json["why_not_second"] = why_second(result.best[0], result.best[1]);
  auto& front = json["front"] = nlohmann::ordered_json::array();
  for (const Candidate& c : result.front) front.push_back(json_of(c));
  return json.dump(2) + "\n";
}

}  // namespace plumbline
