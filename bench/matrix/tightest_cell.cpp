#include "bench/matrix/tightest_cell.hpp"

#include <fmt/format.h>

#include "bench/show/text/record_tables.hpp"
#include "core/base/byte_text.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

const RankMemoryReport* deciding_rank(const std::vector<Record>& records, const std::string& id) {
  for (const Record& record : records) {
    if (record.id != id || !record.prediction) continue;
    const MemoryReport& memory = record.prediction->memory;
    for (const RankMemoryReport& rank : memory.ranks) {
      if (rank.rank == memory.peak_rank) return &rank;
    }
  }
  return nullptr;
}

std::string device_text(const KnifeEdge& edge, const ByteUnit& unit) {
  const DeviceMemory& device = *edge.device;
  std::string text = fmt::format("  budget: {} {} ({})", unit.of(device.memory), unit.name, device.source);
  for (const DeviceShare& share : device.taken) {
    text += fmt::format("\n    - {} {} {}, between {} and {}{}", unit.of(share.assumed), unit.name,
                        share.name, unit.of(share.from), unit.of(share.to),
                        share.source.empty() ? "" : fmt::format(" ({})", share.source));
  }
  const std::int64_t low = (device.least() - edge.peak).value;
  const std::int64_t high = (device.most() - edge.peak).value;
  const char* verdict = low <= 0 && high >= 0 ? "the outcome depends on these assumptions"
                        : high < 0            ? "out of memory under all assumptions"
                                              : "fits under all assumptions";
  return text + fmt::format("\n    so {} to {} {}, margin {} to {} bytes: {}\n", unit.of(device.least()),
                            unit.of(device.most()), unit.name, signed_digits(low), signed_digits(high),
                            verdict);
}

}  // namespace

void check_device(const DeviceMemory& device, Bytes budget) {
  const Bytes left = device.budget();
  if (left == budget) return;
  throw InputError(fmt::format(
      "memory_budget: found {} bytes, expected the {} that published: device: leaves; change one of them",
      budget.value, left.value));
}

std::optional<KnifeEdge> find_knife_edge(const std::vector<OomRow>& rows, const std::vector<Record>& records,
                                         const OomMatrix& matrix, const PeakOf& peak_of) {
  const OomRow* least = nullptr;
  for (const OomRow& row : rows) {
    if (row.published != Status::oom || !row.predicted || !row.predicted->peak || row.budget.value == 0)
      continue;
    if (least == nullptr || *row.predicted->peak < *least->predicted->peak) least = &row;
  }
  if (least == nullptr) return std::nullopt;
  KnifeEdge edge;
  edge.cell = least->cell.values;
  edge.budget = least->budget;
  edge.peak = *least->predicted->peak;
  edge.rank = least->predicted->rank;
  edge.device = matrix.device;
  if (const RankMemoryReport* rank = deciding_rank(records, least->cell.id)) edge.bytes = rank->bytes;
  for (const Assumption& assumption : matrix.assumptions) {
    edge.without.push_back({assumption.name, assumption.source, peak_of(edge.cell, assumption.without)});
  }
  return edge;
}

std::string to_text(const KnifeEdge& edge) {
  std::string cell;
  for (const auto& [key, value] : edge.cell) {
    cell += fmt::format("{}{} {}", cell.empty() ? "" : ", ", title_of(key), value);
  }
  const ByteUnit unit = column_unit(edge.budget);
  std::string text = fmt::format(
      "tightest published OOM cell: {}: needs {} {}, margin {} bytes of "
      "{} {}\n  rank {}:",
      cell, unit.of(edge.peak), unit.name, signed_digits((edge.budget - edge.peak).value),
      unit.of(edge.budget), unit.name, edge.rank);
  for (int c = 0; c < kCategories; ++c) {
    const auto category = static_cast<Category>(c);
    text += fmt::format("{} {} {}", c == 0 ? "" : ",", name_of(category), unit.of(edge.bytes[category]));
  }
  text += fmt::format(" {}\n", unit.name);
  for (const EdgeLine& line : edge.without) {
    text += fmt::format("  without {}: {} bytes, margin {} ({})\n", line.name,
                        signed_digits((line.peak - edge.peak).value),
                        signed_digits((edge.budget - line.peak).value), line.source);
  }
  if (edge.device) text += device_text(edge, unit);
  return text;
}

OrderedJson to_json(const KnifeEdge& edge) {
  OrderedJson json;
  json["values"] = OrderedJson::object();
  for (const auto& [key, value] : edge.cell) json["values"][key] = value;
  json["budget_bytes"] = edge.budget.value;
  json["peak_bytes"] = edge.peak.value;
  json["margin_bytes"] = (edge.budget - edge.peak).value;
  json["rank"] = edge.rank;
  for (int c = 0; c < kCategories; ++c) {
    const auto category = static_cast<Category>(c);
    json[std::string(name_of(category)) + "_bytes"] = edge.bytes[category].value;
  }
  json["without"] = OrderedJson::array();
  for (const EdgeLine& line : edge.without) {
    json["without"].push_back({{"name", line.name},
                               {"source", line.source},
                               {"peak_bytes", line.peak.value},
                               {"margin_bytes", (edge.budget - line.peak).value}});
  }
  if (!edge.device) return json;
  OrderedJson taken = OrderedJson::array();
  for (const DeviceShare& share : edge.device->taken) {
    taken.push_back({{"name", share.name},
                     {"source", share.source},
                     {"from_bytes", share.from.value},
                     {"to_bytes", share.to.value},
                     {"assumed_bytes", share.assumed.value}});
  }
  json["device"] = {{"memory_bytes", edge.device->memory.value},
                    {"least_budget_bytes", edge.device->least().value},
                    {"most_budget_bytes", edge.device->most().value},
                    {"source", edge.device->source},
                    {"taken", taken}};
  return json;
}

}  // namespace plumbline
