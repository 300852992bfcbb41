#include "bench/show/views/vary/run_difference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "bench/show/text/text_table.hpp"
#include "bench/show/views/vary/varied_report.hpp"
#include "core/base/byte_text.hpp"
#include "core/base/one_line.hpp"
#include "core/config_text/config_listing.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kMostOperators = 20;
constexpr std::size_t kLongestKeyValue = 40;
constexpr double kShownOperator = 0.0005;  // of the first step

using Pair = std::pair<std::string, std::string>;

std::vector<std::pair<std::string, Pair>> differing_keys(const VariedRun& first, const VariedRun& second) {
  std::map<std::string, std::string> values;
  for (auto& [key, value] : describe(first.config)) values[key] = value;
  std::vector<std::pair<std::string, Pair>> keys;
  for (auto& [key, value] : describe(second.config)) {
    if (values[key] != value) keys.push_back({key, {values[key], value}});
  }
  return keys;
}

/// Seconds of each operator, by phase and label.
std::map<Pair, double> operator_seconds(const VariedRun& run) {
  std::map<Pair, double> seconds;
  for (const CostLine& line : run.prediction->lines) {
    if (line.phase.find('+') != std::string::npos) continue;  // a pair repeats lines of its two actions
    const double times = line.phase == "step" ? 1.0 : static_cast<double>(run.config.microbatches());
    seconds[{line.phase, line.label}] +=
        times * line.seconds.value / static_cast<double>(run.config.parallel.pipeline);
  }
  return seconds;
}

const RankMemory* needing_most(const VariedRun& run) {
  const MemoryPrediction& memory = run.prediction->memory;
  const auto found = std::find_if(memory.ranks.begin(), memory.ranks.end(), [&](const RankMemory& rank) {
    return rank.rank <= memory.peak_rank && memory.peak_rank < rank.rank + memory.ranks_alike;
  });
  return found == memory.ranks.end() ? nullptr : &*found;
}

struct DifferingBytes {
  std::string name;
  std::string key;
  Bytes first;
  Bytes second;
};

/// Needed memory, the peak of tensors and its categories on the rank that needs most.
std::vector<DifferingBytes> differing_bytes(const VariedRun& first, const VariedRun& second) {
  std::vector<DifferingBytes> parts = {
      {"needed", "needed_bytes", first.prediction->fit.needed, second.prediction->fit.needed},
      {"peak of tensors", "peak_bytes", first.prediction->memory.peak, second.prediction->memory.peak}};
  const RankMemory* one = needing_most(first);
  const RankMemory* other = needing_most(second);
  if (one == nullptr || other == nullptr) return parts;
  for (int i = 0; i < kCategories; ++i) {
    const auto category = static_cast<Category>(i);
    if (one->peak[category].value == 0 && other->peak[category].value == 0) continue;
    const std::string name(name_of(category));
    parts.push_back({"  " + name, name + "_bytes", one->peak[category], other->peak[category]});
  }
  return parts;
}

std::string change_text(double first, double second) {
  return first > 0 ? fmt::format("{:+.1f} %", 100 * (second / first - 1)) : "";
}

TextTable table_with(const std::string& title, const std::string& unit, const std::string& first,
                     const std::string& second) {
  TextTable table;
  table.column(title, true);
  table.column(first + unit);
  table.column(second + unit);
  table.column("difference");
  table.column("");
  return table;
}

void difference_row(TextTable& table, const std::string& name, double first, double second, double factor) {
  table.row({name, fmt::format("{:.3f}", first * factor), fmt::format("{:.3f}", second * factor),
             fmt::format("{:+.3f}", (second - first) * factor), change_text(first, second)});
}

}  // namespace

std::vector<OperatorTime> operator_times(const VariedRun& first, const VariedRun& second) {
  std::map<Pair, OperatorTime> all;
  const auto add = [&](const VariedRun& run, double OperatorTime::*side) {
    for (const auto& [name, seconds] : operator_seconds(run)) {
      OperatorTime& each = all[name];
      each.phase = name.first;
      each.label = name.second;
      each.*side = seconds;
    }
  };
  add(first, &OperatorTime::first);
  add(second, &OperatorTime::second);
  std::vector<OperatorTime> operators;
  operators.reserve(all.size());
  for (auto& [name, each] : all) operators.push_back(std::move(each));
  std::stable_sort(operators.begin(), operators.end(), [](const OperatorTime& a, const OperatorTime& b) {
    return std::abs(a.second - a.first) > std::abs(b.second - b.first);
  });
  return operators;
}

std::string difference_text(const VariedRun& first, const std::string& first_name, const VariedRun& second,
                            const std::string& second_name) {
  const StepTime& one = first.prediction->time;
  const StepTime& other = second.prediction->time;
  const bool brief = std::max(one.step, other.step).value < 1;
  const double factor = brief ? 1e3 : 1;
  const std::string unit = brief ? ", ms" : ", s";
  std::string text = fmt::format("A: {} ({})\nB: {} ({})\n", first_name, first.verdict.text(), second_name,
                                 second.verdict.text());
  for (const auto& [key, values] : differing_keys(first, second))
    text += fmt::format("  {}: {} -> {}\n", key, printable(values.first, kLongestKeyValue),
                        printable(values.second, kLongestKeyValue));
  TextTable step = table_with("step, mean over pipeline ranks", unit, "A", "B");
  difference_row(step, "step time", one.step.value, other.step.value, factor);
  for (const Figure<StepTime>* part : step_parts()) {
    if (part->of(one) != 0 || part->of(other) != 0)
      difference_row(step, "  " + std::string(part->title), part->of(one), part->of(other), factor);
  }
  text += '\n' + step.text();
  const std::vector<DifferingBytes> parts = differing_bytes(first, second);
  const ByteUnit bytes = readable_unit(static_cast<double>(parts.front().first.value));
  TextTable memory =
      table_with("memory of the rank that needs most", fmt::format(", {}", bytes.name), "A", "B");
  for (const DifferingBytes& part : parts) {
    const Bytes difference = part.second - part.first;
    memory.row({part.name, bytes.of(part.first), bytes.of(part.second),
                (difference.value > 0 ? "+" : "") + bytes.of(difference),
                change_text(static_cast<double>(part.first.value), static_cast<double>(part.second.value))});
  }
  text += '\n' + memory.text();
  TextTable table = table_with("operator, mean over pipeline ranks", unit, "A", "B");
  OperatorTime rest;
  std::size_t left = 0, shown = 0;
  for (const OperatorTime& each : operator_times(first, second)) {
    const bool small = std::abs(each.second - each.first) < kShownOperator * one.step.value;
    if (!small && shown < kMostOperators) {
      ++shown;
      difference_row(table, fmt::format("{}: {}", each.phase, each.label), each.first, each.second, factor);
      continue;
    }
    ++left;
    rest.first += each.first;
    rest.second += each.second;
  }
  if (left > 0)
    difference_row(table, fmt::format("{} operators that change less", left), rest.first, rest.second,
                   factor);
  return text + '\n' + table.text();
}

OrderedJson difference_json(const VariedRun& first, const std::string& first_name, const VariedRun& second,
                            const std::string& second_name) {
  OrderedJson json = {{"names", {first_name, second_name}}, {"keys", OrderedJson::object()}};
  for (const auto& [key, values] : differing_keys(first, second))
    json["keys"][key] = {values.first, values.second};
  const StepTime& one = first.prediction->time;
  const StepTime& other = second.prediction->time;
  json["time"] = {{"step_s", {one.step.value, other.step.value}}};
  for (const Figure<StepTime>* part : step_parts())
    json["time"][std::string(part->key)] = {part->of(one), part->of(other)};
  json["memory"] = OrderedJson::object();
  for (const DifferingBytes& part : differing_bytes(first, second))
    json["memory"][part.key] = {part.first.value, part.second.value};
  json["operators"] = OrderedJson::array();
  for (const OperatorTime& each : operator_times(first, second))
    json["operators"].push_back(
        {{"phase", each.phase}, {"operator", each.label}, {"seconds", {each.first, each.second}}});
  return json;
}

}  // namespace plumbline
