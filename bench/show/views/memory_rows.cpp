#include "bench/show/views/memory_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "bench/show/text/figures.hpp"
#include "core/base/byte_text.hpp"

namespace plumbline {
namespace {

/// "0B3: backward of stage 0, micro-batch 3"; the rarer actions as they are.
std::string action_in_words(const std::string& action) {
  constexpr std::pair<std::string_view, const char*> kWords[] = {
      {"F", "forward"}, {"B", "backward"}, {"I", "input gradient"}, {"W", "weight gradient"}};
  const std::size_t letters = action.find_first_not_of("0123456789");
  if (letters == std::string::npos || letters == 0) return action;
  const std::size_t number = std::min(action.find_first_of("0123456789", letters), action.size());
  for (const auto& [name, words] : kWords) {
    if (action.substr(letters, number - letters) != name) continue;
    return fmt::format("{}: {} of stage {}, micro-batch {}", action, words, action.substr(0, letters),
                       action.substr(number));
  }
  return action;
}

}  // namespace

void memory_rows(ComparisonSheet& sheet, int rank) {
  const auto of_rank = [rank](const MemoryReport& memory) -> const MemoryBreakdown& {
    static const MemoryBreakdown kNone;
    const RankMemoryReport* row = memory.row_of(rank);
    return row == nullptr ? kNone : row->bytes;
  };
  sheet.row(
      fmt::format("peak memory, rank {}", rank),
      [=](const MemoryReport& m, auto&, auto&) { return static_cast<double>(of_rank(m).total().value); },
      readable_bytes);
  for (int i = 0; i < kCategories; ++i) {
    const auto category = static_cast<Category>(i);
    sheet.row(
        fmt::format("  {}", name_of(category)),
        [=](const MemoryReport& m, auto&, auto&) { return static_cast<double>(of_rank(m)[category].value); },
        readable_bytes);
  }
  sheet.row(
      fmt::format("host memory, rank {}", rank),
      [=](const MemoryReport& m, auto&, auto&) {
        const RankMemoryReport* row = m.row_of(rank);
        return static_cast<double>(row == nullptr ? 0 : row->host.value);
      },
      readable_bytes);
}

void device_rows(ComparisonSheet& sheet, const Record& record) {
  const auto of = [](const auto& part) -> const DeviceMemoryReport* {
    return part && part->device_memory ? &*part->device_memory : nullptr;
  };
  const DeviceMemoryReport* predicted = of(record.prediction);
  const DeviceMemoryReport* measured = of(record.measurement);
  const DeviceMemoryReport* shown = measured != nullptr ? measured : predicted;
  if (shown == nullptr || shown->fullest() == nullptr) return;
  const int rank = shown->fullest()->rank;
  const auto row_of = [rank](const DeviceMemoryReport* report) {
    return report == nullptr ? nullptr : report->row_of(rank);
  };
  const DeviceMemoryRow* p = row_of(predicted);
  const DeviceMemoryRow* m = row_of(measured);
  const auto add = [&](const std::string& name,
                       const std::function<std::optional<Bytes>(const DeviceMemoryRow&)>& value) {
    const auto number = [&](const DeviceMemoryRow* row) {
      const std::optional<Bytes> bytes = row == nullptr ? std::nullopt : value(*row);
      return bytes ? static_cast<double>(bytes->value) : NAN;
    };
    sheet.pair(name, number(p), number(m), readable_bytes);
  };
  add(fmt::format("device memory, rank {}", rank), [](const DeviceMemoryRow& r) { return r.total; });
  add("  tensors (allocated)", [](const DeviceMemoryRow& r) { return r.allocated; });
  add("  tensors (reserved)", [](const DeviceMemoryRow& r) { return r.reserved; });
  add("  CUDA context", [](const DeviceMemoryRow& r) { return r.context; });
  add("  cuBLASLt and workspaces", [](const DeviceMemoryRow& r) { return r.libraries; });
  add("  NCCL communicators", [](const DeviceMemoryRow& r) { return r.nccl; });
  add("  kernels and other", [](const DeviceMemoryRow& r) { return r.other; });
  add("allocator margin", [](const DeviceMemoryRow& r) { return r.margin; });
  add("  all processes on the device", [](const DeviceMemoryRow& r) { return r.device_used; });
  sheet.say(fmt::format("device capacity: {} ({})", readable_bytes(static_cast<double>(shown->device.value)),
                        shown->source));
  const int sharing = m != nullptr ? m->ranks_on_device : 1;
  if (sharing > 1)
    sheet.say(
        fmt::format("{} ranks share the device: NCCL and other are even shares of the reading", sharing));
}

void peak_lines(ComparisonSheet& sheet, const Record& record, int rank) {
  const auto says = [&](const char* who, const MemoryReport& memory) {
    const RankMemoryReport* row = memory.row_of(rank);
    if (row != nullptr && !row->at.empty())
      sheet.say(fmt::format("peak during {} ({})", action_in_words(row->at), who));
  };
  if (record.prediction) says("predicted", record.prediction->memory);
  if (!record.measurement) return;
  says("measured", record.measurement->memory);
  const RankMemoryReport* measured = record.measurement->memory.row_of(rank);
  if (measured == nullptr) return;
  for (const HolderReport& holder : measured->holders) {
    sheet.say(fmt::format("  {:<32} {:>13}  {}, {} tensor{}", holder.holder,
                          readable_bytes(static_cast<double>(holder.bytes.value)), name_of(holder.category),
                          holder.tensors, holder.tensors == 1 ? "" : "s"));
  }
}

}  // namespace plumbline
