#include "bench/show/views/search_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "bench/show/text/figures.hpp"
#include "bench/show/text/text_table.hpp"
#include "core/base/escaped_controls.hpp"
#include "core/base/output_json.hpp"

namespace plumbline {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

std::vector<std::string> not_searched(const SearchContext& context) {
  std::vector<std::string> keys;
  if (context.context == 1) keys.emplace_back("context_parallel_size");
  if (context.expert == 1) keys.emplace_back("expert_model_parallel_size");
  return keys;
}

std::string_view granularity_of(Recompute recompute) {
  switch (recompute) {
    case Recompute::none:
      return "none";
    case Recompute::selective:
      return "selective";
    case Recompute::full:
      return "full";
  }
  return "none";
}

}  // namespace

Settings settings_of(const Candidate& c) {
  const SearchKeys& keys = c.keys;
  const HierarchicalContext sizes = hierarchical_of(keys);
  return {
      {"tensor_model_parallel_size", std::to_string(keys.tensor)},
      {"pipeline_model_parallel_size", std::to_string(keys.pipeline)},
      {"data_parallel_size", std::to_string(keys.data)},
      {"context_parallel_size", std::to_string(keys.context)},
      {"cp_comm_type", std::string(cp_comm_type_name(keys.cp_comm_type))},
      {"hierarchical_context_parallel_sizes",
       sizes.given() ? fmt::format("{},{}", sizes.heads, sizes.ring) : "none"},
      {"expert_model_parallel_size", std::to_string(keys.expert)},
      {"expert_tensor_parallel_size", std::to_string(keys.expert_tensor)},
      {"moe_token_dispatcher_type", std::string(token_dispatcher_name(keys.dispatcher))},
      {"virtual_pipeline_chunks", std::to_string(keys.chunks)},
      {"pipeline_schedule", std::string(search_traits(keys.schedule).name)},
      {"micro_batch_size", std::to_string(keys.micro_batch)},
      {"sequence_parallel", keys.sequence_parallel ? "true" : "false"},
      {"recompute_granularity", std::string(granularity_of(keys.recompute))},
      {"recompute_num_layers", std::to_string(keys.recompute_layers)},
      {"recompute_modules", to_string(keys.recomputed)},
      {"zero_stage", std::to_string(keys.zero)},
      {"vocab_parallel", std::string(vocab_parallel_name(keys.vocabulary))},
      {"layer_distribution", keys.balanced ? "balanced" : "even"},
      {"grad_dtype", keys.half_gradients ? "same" : "fp32"},
  };
}

namespace {

MemoryVerdict verdict_on(const Candidate& c, const SearchContext& context) {
  return context.verdict ? context.verdict(c.fit) : verdict_of(c.fit, std::nullopt);
}

nlohmann::ordered_json json_of(const Candidate& c, const SearchContext& context) {
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
  nlohmann::ordered_json json = {
      {"config", config},
      {"step_s", c.time.step.value},
      {"peak_bytes", c.peak.value},
      {"device_bytes", c.device.value > 0 ? nlohmann::ordered_json(c.device.value) : nullptr},
      {"needed_bytes", c.fit.needed.value},
      {"fits", c.fit.fits},
      {"compute_s", c.time.compute.value},
      {"exposed_tensor_s", c.time.exposed_tensor.value},
      {"exposed_pipeline_s", c.time.exposed_pipeline.value},
      {"exposed_data_s", c.time.exposed_data.value},
      {"optimizer_s", c.time.optimizer.value},
      {"tokens_per_s", c.throughput.tokens_per_s},
      {"tokens_per_s_per_gpu", c.throughput.tokens_per_s_per_gpu},
      {"model_tflops_per_gpu", c.throughput.model_tflops_per_gpu},
      {"mfu", c.throughput.mfu},
      {"command", context.command(c)}};
  const MemoryVerdict verdict = verdict_on(c, context);
  json["verdict"] = name_of(verdict.word);
  if (verdict.chance) json["chance"] = *verdict.chance;
  if (const auto& steps = context.steps) {
    json["step_s_interval"] = {{"low", c.time.step.value * steps->low},
                               {"high", c.time.step.value * steps->high}};
    json["tokens_per_s_interval"] = {{"low", c.throughput.tokens_per_s / steps->high},
                                     {"high", c.throughput.tokens_per_s / steps->low}};
    json["mfu_interval"] = {{"low", c.throughput.mfu / steps->high}, {"high", c.throughput.mfu / steps->low}};
  }
  return json;
}

std::string verdict_suffix(const MemoryVerdict& verdict) {
  return verdict.word == Verdict::fits || verdict.word == Verdict::unknown
             ? ""
             : fmt::format(" ({})", verdict.text());
}

double gib(Bytes bytes) {
  return static_cast<double>(bytes.value) / kBytesPerGiB;
}

std::string table_of(const std::vector<Candidate>& list, const SearchContext& context, int width) {
  const bool known = !list.empty() && list.front().device.value > 0;
  TextTable table;
  for (const char* title : {"#", "step s", "tokens/s", "MFU %", "peak GiB"}) table.column(title);
  if (known) table.column("device");
  if (known) table.column("needed");
  for (const char* title : {"compute", "TP/CP/EP", "bubble", "DP", "optim"}) table.column(title);
  table.column("configuration", true);
  int number = 0;
  for (const Candidate& c : list) {
    const auto memory = [](Bytes bytes) { return fmt::format("{:.2f}", gib(bytes)); };
    const auto part = [](Seconds seconds) { return fmt::format("{:.3f}", seconds.value); };
    std::vector<std::string> cells = {fmt::format("{}", ++number), fmt::format("{:.4f}", c.time.step.value),
                                      grouped_digits(c.throughput.tokens_per_s),
                                      fmt::format("{:.1f}", 100 * c.throughput.mfu), memory(c.peak)};
    if (known) cells.insert(cells.end(), {memory(c.device), memory(c.fit.needed)});
    cells.insert(cells.end(),
                 {part(c.time.compute), part(c.time.exposed_tensor), part(c.time.exposed_pipeline),
                  part(c.time.exposed_data), part(c.time.optimizer),
                  describe_candidate(c) + verdict_suffix(verdict_on(c, context))});
    table.row(std::move(cells));
  }
  return table.text(width);
}

std::string commands_of(const std::vector<Candidate>& list, const SearchContext& context) {
  std::string text;
  int number = 0;
  for (const Candidate& c : list)
    text += fmt::format("{:>3} {}\n", ++number, escaped_controls(context.command(c)));
  return text;
}

}  // namespace

std::string describe_candidate(const Candidate& c) {
  const SearchKeys& keys = c.keys;
  std::string text = fmt::format("tp {} pp {} dp {}", keys.tensor, keys.pipeline, keys.data);
  if (keys.context > 1) text += fmt::format(" cp {} {}", keys.context, cp_comm_type_name(keys.cp_comm_type));
  if (const HierarchicalContext sizes = hierarchical_of(keys); sizes.given())
    text += fmt::format(" {},{}", sizes.heads, sizes.ring);
  if (keys.expert > 1) text += fmt::format(" ep {}", keys.expert);
  if (keys.expert_tensor > 0) text += fmt::format(" etp {}", keys.expert_tensor);
  if (keys.dispatcher != TokenDispatcher::automatic)
    text += fmt::format(" {}", token_dispatcher_name(keys.dispatcher));
  text += fmt::format(" mbs {} {}", keys.micro_batch, search_traits(keys.schedule).name);
  if (keys.chunks > 1) text += fmt::format(" chunks {}", keys.chunks);
  if (keys.sequence_parallel) text += " sp";
  if (keys.recompute != Recompute::none) text += fmt::format(" recompute {}", granularity_of(keys.recompute));
  if (keys.recomputed != kCoreAttention) text += fmt::format(" {}", to_string(keys.recomputed));
  if (keys.recompute == Recompute::full) text += fmt::format("/{}", keys.recompute_layers);
  if (keys.zero > 0) text += fmt::format(" zero {}", keys.zero);
  if (keys.vocabulary != VocabPasses::none) text += fmt::format(" {}", vocab_parallel_name(keys.vocabulary));
  if (keys.balanced) text += " balanced";
  if (keys.half_gradients) text += " grad same";
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
      {{"compute", (second.time.compute - first.time.compute).value},
       {"exposed TP/CP/EP communication", (second.time.exposed_tensor - first.time.exposed_tensor).value},
       {"pipeline bubble", (second.time.exposed_pipeline - first.time.exposed_pipeline).value},
       {"exposed DP communication", (second.time.exposed_data - first.time.exposed_data).value},
       {"optimizer", (second.time.optimizer - first.time.optimizer).value}}};
  const auto grown = std::max_element(parts.begin(), parts.end(),
                                      [](const auto& x, const auto& y) { return x.second < y.second; });
  const double loss = second.time.step / first.time.step - 1;
  if (loss < 1e-6) {
    return fmt::format("same step time, {:.2f} instead of {:.2f} GiB: {}", gib(second.peak), gib(first.peak),
                       differences);
  }
  return fmt::format("{:.2f} % slower ({}): {} {:+.1f} ms, step time {:+.1f} ms", 100 * loss, differences,
                     grown->first, 1e3 * grown->second, 1e3 * (second.time.step - first.time.step).value);
}

namespace {

/// The time it took, and what is known of configurations that were not predicted.
std::string effort_of(const SearchResult& result, const SearchContext& context) {
  if (result.complete)
    return fmt::format("searched in {:.2f} s ({} simulated, the rest ruled out by bounds)", context.seconds,
                       result.simulated);
  if (result.at_least.value <= 0)
    return fmt::format("stopped after {:.2f} s, before all layouts were seen: others may be faster",
                       context.seconds);
  return fmt::format("stopped after {:.2f} s ({} simulated): no other is more than {:.1f} % faster",
                     context.seconds, result.simulated,
                     100 * (result.best.front().time.step / result.at_least - 1));
}

/// The abbreviations that the table's configurations have.
std::string legend_of(const SearchResult& result) {
  const auto any = [&](const auto& has) {
    return std::ranges::any_of(result.best, [&](const Candidate& c) { return has(c.keys); });
  };
  std::string text;
  const auto add = [&](bool occurs, const char* meaning) {
    if (occurs) text += (text.empty() ? "" : "; ") + std::string(meaning);
  };
  add(any([](const SearchKeys& keys) { return keys.micro_batch > 0; }), "mbs: micro-batch size");
  add(any([](const SearchKeys& keys) { return keys.sequence_parallel; }), "sp: sequence parallel");
  add(any([](const SearchKeys& keys) { return keys.recompute == Recompute::full; }),
      "recompute full/N: of groups of N layers");
  add(any([](const SearchKeys& keys) { return keys.half_gradients; }),
      "grad same: gradients in the weights' type");
  add(any([](const SearchKeys& keys) { return keys.balanced; }), "balanced: fewer layers on the last stage");
  return text.empty() ? "" : text + "\n";
}

}  // namespace

std::string search_text(const SearchResult& result, const SearchContext& context, int width) {
  std::string text = fmt::format("{} configurations of {} on {} with {:.2f} GiB; {}\n\n",
                                 grouped_digits(static_cast<double>(result.configurations)), context.software,
                                 context.machine, gib(context.limit), effort_of(result, context));
  text += table_of(result.best, context, width);
  if (const auto& steps = context.steps)
    text += fmt::format(
        "steps of comparable runs: {:.2f} to {:.2f} times these (80 % interval of {} runs, {} sources)\n",
        steps->low, steps->high, steps->rows, steps->origins);
  if (context.by_device)
    text +=
        "peak: tensors; device: device memory; needed: device memory and allocator margin, which must fit\n";
  else if (std::ranges::any_of(result.best, [](const Candidate& c) { return c.device.value > 0; }))
    text += "peak, needed: tensors, which must fit memory_budget; device: device memory, not compared\n";
  text += legend_of(result);
  text += "\ncommands:\n" + commands_of(result.best, context);
  if (result.best.size() > 1) {
    text += fmt::format("\nsecond best: {}\n", why_second(result.best[0], result.best[1]));
  }
  // Steps of less than three percent are left out of the text; the JSON has them all.
  std::vector<Candidate> shown;
  for (const Candidate& c : result.front) {
    if (shown.empty() || c.time.step.value < 0.97 * shown.back().time.step.value) shown.push_back(c);
  }
  text += "\nPareto front of memory and step time (commands: --json):\n";
  text += table_of(shown, context, width);
  if (!context.ways.empty()) text += fmt::format("\nbest configuration, by {}", context.ways);
  if (const auto keys = not_searched(context); !keys.empty())
    text += fmt::format("\nnot searched: {} (use `predict` with one configuration)\n", fmt::join(keys, ", "));
  return text;
}

nlohmann::ordered_json to_json(const SearchResult& result, const SearchContext& context) {
  nlohmann::ordered_json json;
  json["software"] = context.software;
  json["hardware"] = context.machine;
  json["memory_budget_bytes"] = context.limit.value;
  json["configurations"] = result.configurations;
  json["simulated"] = result.simulated;
  json["seconds"] = context.seconds;
  json["complete"] = result.complete;
  if (!result.complete && result.at_least.value > 0) json["at_least_s"] = result.at_least.value;
  json["not_searched"] = not_searched(context);
  auto& best = json["best"] = nlohmann::ordered_json::array();
  for (const Candidate& c : result.best) best.push_back(json_of(c, context));
  if (result.best.size() > 1) json["why_not_second"] = why_second(result.best[0], result.best[1]);
  auto& front = json["front"] = nlohmann::ordered_json::array();
  for (const Candidate& c : result.front) front.push_back(json_of(c, context));
  return json;
}

std::string search_json(const SearchResult& result, const SearchContext& context) {
  return output_json(to_json(result, context), 2) + "\n";
}

}  // namespace plumbline
