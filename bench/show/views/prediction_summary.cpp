#include "bench/show/views/prediction_summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/published/verdict.hpp"
#include "bench/show/text/figures.hpp"
#include "bench/show/text/text_table.hpp"
#include "core/base/byte_text.hpp"
#include "core/base/one_line.hpp"
#include "core/config_text/config_keys.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kLongestName = 60;

std::string key_text(const RunConfig& config, std::string_view key) {
  return find_config_key(key)->print(config);
}

std::string count_text(std::int64_t count) {
  const auto number = static_cast<double>(count);
  return count >= 1'000'000'000 ? fmt::format("{:.1f} B", number / 1e9)
                                : fmt::format("{:.1f} M", number / 1e6);
}

std::string parameters_text(const ModelReport& model) {
  std::string text = count_text(model.parameters) + " parameters";
  if (model.active_parameters < model.parameters)
    text += fmt::format(" ({} active)", count_text(model.active_parameters));
  if (model.mtp_parameters > 0)
    text += fmt::format(" and {} in MTP modules", count_text(model.mtp_parameters));
  return text;
}

std::string machines_text(const RunConfig& config) {
  const int world = config.parallel.world_size;
  const std::string& hardware = config.machine.hardware;
  if (hardware.empty()) return fmt::format("{} {} on this machine", world, world == 1 ? "rank" : "ranks");
  return fmt::format("{} x {}", world, printable(hardware, kLongestName));
}

std::string parallel_text(const RunConfig& config) {
  const ParallelConfig& parallel = config.parallel;
  std::string text = fmt::format("TP {}, PP {}, CP {}, EP {}, DP {}", parallel.tensor, parallel.pipeline,
                                 parallel.context, parallel.expert, parallel.data());
  if (parallel.expert_tensor > 0) text += fmt::format(", ETP {}", parallel.expert_tensor);
  if (parallel.pipeline > 1) {
    text += "; " + printable(parallel.pp.schedule, kLongestName);
    if (parallel.pp.virtual_chunks > 1)
      text += fmt::format(", {} chunks per rank", parallel.pp.virtual_chunks);
  }
  if (parallel.effective_sequence_parallel()) text += "; sequence parallelism";
  return text;
}

std::string sharding_text(const RunConfig& config) {
  const auto& known = built_in_profiles().software;
  const auto framework = known.find(config.machine.software);
  if (!config.machine.own_step() && framework != known.end() && framework->second.communication.sharded)
    return "FSDP";
  return fmt::format("ZeRO {}", config.parallel.effective_zero_stage());
}

std::string batch_text(const RunConfig& config) {
  const BatchConfig& batch = config.batch;
  const std::int64_t replicas = config.parallel.data();
  return fmt::format("sequence {}; batch {} = {} {} x {} micro-batches of {}", batch.seq_length,
                     batch.global_batch_size, replicas, replicas == 1 ? "replica" : "replicas",
                     batch.global_batch_size / replicas / batch.micro_batch_size, batch.micro_batch_size);
}

std::string numerics_text(const RunConfig& config) {
  std::string text = key_text(config, "precision");
  if (config.numerics.fp8.on())
    text += fmt::format(" with FP8 {} ({})", key_text(config, "fp8_format"), key_text(config, "fp8_recipe"));
  if (config.numerics.fp4_format != Fp4Format::none)
    text += fmt::format(" with NVFP4 {}", key_text(config, "fp4_format"));
  text += "; " + sharding_text(config);
  text += "; activation recomputation " + key_text(config, "recompute_granularity");
  if (config.recompute.granularity == Recompute::selective)
    text += fmt::format(" ({})", key_text(config, "recompute_modules"));
  if (config.recompute.method == RecomputeMethod::block && config.recompute.partial())
    text += fmt::format(" (first {} layers of a stage)", config.recompute.num_layers);
  else if (config.recompute.partial())
    text += fmt::format(" (1 of {} layers)", config.recompute.num_layers);
  else if (config.recompute.granularity == Recompute::full)
    text += fmt::format(" ({} {} per unit)", config.recompute.num_layers,
                        config.recompute.num_layers == 1 ? "layer" : "layers");
  return text;
}

/// Rates with the interval that follows from that of the step; empty without one.
std::string rates_line(const Throughput& rates, const ComparableFigures& comparable) {
  if (!comparable.step || !std::isfinite(rates.mfu)) return "";
  const double low = 1 / comparable.step->high;
  const double high = 1 / comparable.step->low;
  return fmt::format("tokens/s: {} ({} to {}); MFU {:.1f} % ({:.1f} to {:.1f})\n",
                     grouped_digits(rates.tokens_per_s), grouped_digits(low * rates.tokens_per_s),
                     grouped_digits(high * rates.tokens_per_s), 100 * rates.mfu, 100 * low * rates.mfu,
                     100 * high * rates.mfu);
}

/// Largest category of a rank's tensors.
Category largest_of(const MemoryBreakdown& bytes) {
  const auto most = std::max_element(bytes.categories.begin(), bytes.categories.end());
  return static_cast<Category>(most - bytes.categories.begin());
}

std::string verdict_text(const Record& record, const Fit& fit, const DeviceMemoryReport* device,
                         const ComparableFigures& comparable) {
  const RankMemoryReport* row = record.prediction->memory.row_of(fit.rank);
  const std::string largest =
      row == nullptr ? "" : fmt::format(", largest: {}", name_of(largest_of(row->bytes)));
  const ByteUnit unit = readable_unit(static_cast<double>(fit.needed.value));
  if (fit.limit.value == 0) return fmt::format("needs: {}{}", brief_bytes(fit.needed), largest);
  const auto figure = [&](Bytes bytes) {
    return fmt::format("{:.1f}", static_cast<double>(bytes.value) / static_cast<double>(unit.size.value));
  };
  // A budget of tensors is the user's word: a device that has no room for the rest is only named.
  const DeviceMemoryRow* fullest =
      fit.by_device || device == nullptr || device->device.value == 0 ? nullptr : device->fullest();
  const std::string beyond =
      fullest == nullptr || fullest->needed() <= device->device
          ? ""
          : fmt::format("; beyond the device, which memory_budget replaces: {} of {} {}",
                        figure(fullest->needed()), figure(device->device), unit.name);
  const MemoryVerdict verdict = verdict_of(fit, comparable.exceeding);
  const std::string chance =
      verdict.word == Verdict::tight
          ? fmt::format(", {:.0f} % of comparable runs would exceed it", 100 * *verdict.chance)
          : "";
  return fmt::format("{}: {} of {} {} {}({:.0f} %){}{}{}", name_of(verdict.word), figure(fit.needed),
                     figure(fit.limit), unit.name, fullest == nullptr ? "" : "of memory_budget ",
                     100 * static_cast<double>(fit.needed.value) / static_cast<double>(fit.limit.value),
                     chance, largest, beyond);
}

/// One line of the table by pipeline rank.
struct RankLine {
  int first = 0;  // pipeline ranks
  int last = 0;
  std::vector<std::string> figures;
};

/// Neighbours with the same figures are in one line.
std::string rank_table(const MemoryReport& memory, const DeviceMemoryReport* device, int width) {
  const ByteUnit unit = readable_unit(static_cast<double>(memory.peak.value));
  const auto figure = [&](Bytes bytes) { return bytes.value == 0 ? "-" : unit.of(bytes); };
  std::vector<Category> shown;
  for (int i = 0; i < kCategories; ++i) {
    const auto category = static_cast<Category>(i);
    const bool any = std::any_of(memory.ranks.begin(), memory.ranks.end(), [&](const RankMemoryReport& rank) {
      return rank.bytes[category].value > 0;
    });
    if (any) shown.push_back(category);
  }
  std::vector<RankLine> lines;
  for (const RankMemoryReport& rank : memory.ranks) {
    std::vector<std::string> figures = {figure(rank.bytes.total())};
    if (device != nullptr) {
      const DeviceMemoryRow* row = device->row_of(rank.rank);
      figures.push_back(row == nullptr ? "-" : figure(row->total));
      figures.push_back(row == nullptr ? "-" : figure(row->needed()));
    }
    for (const Category category : shown) figures.push_back(figure(rank.bytes[category]));
    const bool same =
        !lines.empty() && lines.back().last >= rank.pipeline_rank - 1 && lines.back().figures == figures;
    if (same) lines.back().last = rank.pipeline_rank;
    // The first rank of a stage that differs from the one before it.
    if (!same) lines.push_back({rank.pipeline_rank, rank.pipeline_rank, std::move(figures)});
  }
  TextTable table;
  table.column(fmt::format("rank, {}", unit.name), true);
  table.column("tensors");
  if (device != nullptr) table.column("device");
  if (device != nullptr) table.column("needed");
  for (const Category category : shown) table.column(std::string(name_of(category)));
  for (RankLine& line : lines) {
    line.figures.insert(line.figures.begin(), line.first == line.last
                                                  ? fmt::format("{}", line.first)
                                                  : fmt::format("{}-{}", line.first, line.last));
    table.row(std::move(line.figures));
  }
  const char* const legend =
      device == nullptr ? "rank: of the pipeline; tensors: of the step, at their peak\n"
                        : "rank: of the pipeline; tensors: of the step, at their peak; device: with the "
                          "process's own; needed: with the allocator's margin\n";
  return table.text(width) + legend;
}

}  // namespace

std::string prediction_summary(const RunConfig& config, const Record& record, const Prediction& prediction,
                               const ComparableFigures& comparable, int width) {
  const PredictionReport& report = *record.prediction;
  const DeviceMemoryReport* device =
      report.device_memory && !report.device_memory->ranks.empty() ? &*report.device_memory : nullptr;
  std::string text =
      fmt::format("{}, {}; {}; software {}\n", printable(config.model.name, kLongestName),
                  parameters_text(record.model), machines_text(config), config.machine.software);
  text += parallel_text(config) + '\n' + batch_text(config) + '\n' + numerics_text(config) + '\n';
  if (const std::string line = comparable_line(comparable, prediction.time.step); !line.empty())
    text += line + '\n';
  text += rates_line(prediction.throughput, comparable);
  text += verdict_text(record, prediction.fit, device, comparable) + '\n';
  return text + rank_table(report.memory, device, width) + '\n';
}

}  // namespace plumbline
