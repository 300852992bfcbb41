#include "bench/show/views/memory_comparison.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace plumbline {
namespace {

double mib(Bytes bytes) {
  return static_cast<double>(bytes.value) / static_cast<double>(kMiB.value);
}

/// "activations: predicted 12 bytes, measured 10"; empty when equal.
std::string difference(const MemoryBreakdown& predicted, const MemoryBreakdown& measured) {
  for (int i = 0; i < kCategories; ++i) {
    const auto category = static_cast<Category>(i);
    if (predicted[category] == measured[category]) continue;
    return fmt::format("{}: predicted {} bytes, measured {}", name_of(category), predicted[category].value,
                       measured[category].value);
  }
  return "";
}

/// The first action whose samples differ; counts those that were compared.
std::string first_difference(const Timeline& predicted, const Timeline& measured, std::size_t& compared) {
  const std::size_t ranks = std::min(predicted.memory.size(), measured.memory.size());
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto& expected = predicted.memory[rank];
    const auto& found = measured.memory[rank];
    for (std::size_t i = 0; i < std::min(expected.size(), found.size()); ++i) {
      ++compared;
      for (const auto& [when, part] :
           {std::pair("at the peak of", &MemorySample::peak), std::pair("after", &MemorySample::after)}) {
        const std::string what = difference(expected[i].*part, found[i].*part);
        if (what.empty()) continue;
        return fmt::format("pipeline rank {}, {} action {} ({}): {}", rank, when, i + 1,
                           to_string(measured.trace.ranks[rank][i].action), what);
      }
    }
    if (!expected.empty() && !found.empty() && expected.size() != found.size()) {
      return fmt::format("pipeline rank {}: {} actions predicted, {} measured", rank, expected.size(),
                         found.size());
    }
  }
  return "";
}

}  // namespace

std::string memory_verdict(const Record& record, const std::optional<CellTimelines>& timelines) {
  if (!record.prediction || !record.measurement) return "";
  const auto& predicted = record.prediction->memory.ranks;
  const auto& measured = record.measurement->memory.ranks;
  if (predicted.size() != measured.size())
    return fmt::format("{} ranks predicted, {} measured", predicted.size(), measured.size());
  std::size_t compared = 0;
  std::string action;
  if (timelines && timelines->predicted && timelines->measured) {
    action = first_difference(*timelines->predicted, *timelines->measured, compared);
  }
  for (std::size_t i = 0; i < predicted.size() && action.empty(); ++i) {
    const std::string what = difference(predicted[i].bytes, measured[i].bytes);
    if (!what.empty()) return fmt::format("rank {} at its peak, {}", measured[i].rank, what);
  }
  if (!action.empty()) return "first difference: " + action;
  std::string verdict =
      fmt::format("equal to the byte on {} rank{}", predicted.size(), predicted.size() == 1 ? "" : "s");
  if (compared > 0) verdict += fmt::format(" and during and after {} actions", compared);
  return verdict;
}

std::string memory_table(const Record& record) {
  if (!record.prediction || !record.measurement) return "";
  const MemoryReport& measured = record.measurement->memory;
  const auto rank = static_cast<std::size_t>(measured.peak_rank);
  if (rank >= measured.ranks.size() || rank >= record.prediction->memory.ranks.size()) return "";
  const RankMemoryReport& found = measured.ranks[rank];
  const RankMemoryReport& expected = record.prediction->memory.ranks[rank];
  const auto at = [](const RankMemoryReport& row) { return row.at.empty() ? "-" : row.at; };
  std::string text =
      fmt::format("  {:<16}{:>18}{:>18}\n  {:<16}{:>18}{:>18}\n", fmt::format("rank {}, MiB", rank),
                  "predicted", "measured", "peak during", at(expected), at(found));
  const auto row = [&](std::string_view name, Bytes predicted_bytes, Bytes measured_bytes) {
    if (predicted_bytes.value == 0 && measured_bytes.value == 0) return;
    text += fmt::format("  {:<16}{:>18.3f}{:>18.3f}{}\n", name, mib(predicted_bytes), mib(measured_bytes),
                        predicted_bytes == measured_bytes
                            ? ""
                            : fmt::format("  {:+} bytes", (predicted_bytes - measured_bytes).value));
  };
  for (int i = 0; i < kCategories; ++i) {
    const auto category = static_cast<Category>(i);
    row(name_of(category), expected.bytes[category], found.bytes[category]);
  }
  row("total", expected.bytes.total(), found.bytes.total());
  for (const HolderReport& holder : found.holders) {
    text += fmt::format("  {:.3f} MiB in {} tensor{}: {} ({})\n", mib(holder.bytes), holder.tensors,
                        holder.tensors == 1 ? "" : "s", holder.holder, name_of(holder.category));
  }
  return text;
}

}  // namespace plumbline
