#include "analysis/published/dialect/unstated_choices.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "core/base/error.hpp"
#include "core/config_text/config_keys.hpp"

namespace plumbline {
namespace {

constexpr std::string_view kOr = " or ";
constexpr std::size_t kMostReadings = 64;

struct UsualValues {
  std::string_view key;
  std::string_view values;  // likeliest first
};
// Without a source for a run, none of its choices is taken from its measured time. Micro-batches of 1 are the
// most frequent in published rows, no recomputation and no graphs are the defaults of Megatron-Core and
// torchtitan.
constexpr std::array<UsualValues, 3> kUsual = {{{"micro_batch_size", "1 or 2 or 4 or 8"},
                                                {"recompute_granularity", "none or selective or full"},
                                                {"cuda_graph_impl", "none or full_iteration"}}};

/// Keys whose values are names or paths, which may have any words.
bool is_name(std::string_view column) {
  return column == "model" || column == "hardware" || find_config_key(column) == nullptr;
}

std::vector<std::string> values_of(const std::string& column, std::string_view text) {
  if (is_name(column)) return {std::string(text)};
  for (const UsualValues& usual : kUsual) {
    if (usual.key == column && text == "unstated") text = usual.values;
  }
  std::vector<std::string> values;
  for (std::size_t end = text.find(kOr); end != std::string_view::npos; end = text.find(kOr)) {
    values.emplace_back(text.substr(0, end));
    text.remove_prefix(end + kOr.size());
  }
  values.emplace_back(text);
  return values;
}

}  // namespace

std::vector<Reading> readings_of(const Cells& cells, const std::string& origin) {
  std::vector<Reading> readings = {{cells, ""}};
  for (const auto& [column, text] : cells) {
    const std::vector<std::string> values = values_of(column, text);
    if (values.size() == 1) continue;
    if (readings.size() * values.size() > kMostReadings) {
      throw InputError(fmt::format("{}: {}: found {} readings of the row, expected at most {}; state a value",
                                   origin, column, readings.size() * values.size(), kMostReadings));
    }
    std::vector<Reading> more;
    more.reserve(readings.size() * values.size());
    for (const Reading& reading : readings) {
      for (const std::string& value : values) {
        Reading& next = more.emplace_back(reading);
        next.cells[column] = value;
        next.choice += fmt::format("{}{} {}", next.choice.empty() ? "" : ", ", column, value);
      }
    }
    readings = std::move(more);
  }
  return readings;
}

}  // namespace plumbline
