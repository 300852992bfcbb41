#include "analysis/operators/operator_lookup.hpp"

#include <fmt/format.h>

#include <array>

#include "analysis/hardware/product_rates.hpp"
#include "analysis/operators/constants_times.hpp"
#include "analysis/silicon/embedded.hpp"
#include "core/base/error.hpp"

namespace plumbline::silicon {
namespace {

constexpr Spacing kLog = Spacing::logarithmic;
constexpr std::string_view kExchangeTables[] = {"deepep 0.5.12", "deepep 0.5.6.post2"};  // newest first

std::string key(double value) {
  return fmt::format("{}", value);
}

}  // namespace

const OperatorLookup::Tables& OperatorLookup::tables(const std::string& file) {
  const auto found = tables_.find(file);
  if (found != tables_.end()) return found->second;
  return tables_.emplace(file, parse_measured_tables(embedded_text(silicon_files(), file), file))
      .first->second;
}

const TimeGrid* OperatorLookup::grid(const std::string& file, const std::string& section, const Keys& keys,
                                     const std::vector<KeyAxis>& along, Spacing last,
                                     const SecondsOfPoint& model) {
  std::string name = file + ":" + section;
  for (const auto& [column, value] : keys) name += fmt::format(",{}={}", column, value);
  auto found = grids_.find(name);
  if (found == grids_.end()) {
    const Tables& all = tables(file);
    const auto table = all.find(section);
    found = grids_
                .emplace(name,
                         table == all.end() ? std::nullopt : grid_of(table->second, keys, along, last, model))
                .first;
  }
  return found->second ? &*found->second : nullptr;
}

OperatorTime OperatorLookup::looked_up(const TimeGrid* grid, std::span<const double> size,
                                       const SecondsOfPoint& constants) const {
  const auto found = grid == nullptr ? std::nullopt : grid->at(size);
  if (!found) return {constants(size), Basis::estimated, false};
  return {found->seconds, found->basis, false};
}

OperatorTime OperatorLookup::product(const ProductShape& shape, Clock clock) {
  const auto model = [&](std::span<const double> size) {
    return product_by_constants(machine_->device, {shape.type, size[2], size[0], size[1]});
  };
  const ProductModel roofline = product_model(machine_->device, shape.type);
  const std::string file = fmt::format("products_{}_{}.csv", shape.type, accelerator_);
  const std::vector<KeyAxis> along = {{"n", kLog}, {"k", kLog}};
  const TimeGrid* burst = grid(file, "burst", {}, along, kLog, roofline);
  const TimeGrid* sustained =
      clock == Clock::burst ? nullptr : grid(file, "sustained", {}, along, kLog, roofline);
  // Wide results with few rows were measured. Many rows of a narrow one are the same product, transposed.
  double m = shape.m, n = shape.n;
  if (burst != nullptr && m > burst->axes()[2].values.back() && n < m) std::swap(m, n);
  const std::array<double, 3> size = {n, shape.k, m};
  // For some types, sustained clocks were measured for narrow results only.
  const bool wide_too = sustained != nullptr && burst != nullptr &&
                        sustained->axes()[0].values.back() == burst->axes()[0].values.back();
  if (sustained != nullptr &&
      (clock == Clock::sustained || wide_too || n <= sustained->axes()[0].values.back())) {
    OperatorTime time = looked_up(sustained, size, model);
    time.sustained = true;
    return time;
  }
  if (clock == Clock::sustained) {
    throw InputError(
        fmt::format("clock: found sustained, expected burst, as sustained was not measured for {} GEMMs on "
                    "{}; change it to burst",
                    shape.type, accelerator_));
  }
  return looked_up(burst, size, model);
}

OperatorTime OperatorLookup::attention(const AttentionShape& shape) {
  const auto model = [machine = machine_, shape](std::span<const double> size) {
    return attention_by_constants(machine->device, {shape.type, size[0], size[3], size[1], size[1] / size[2],
                                                    shape.head, shape.window});
  };
  const std::array<double, 4> size = {shape.batch, shape.heads, shape.heads / shape.kv_heads, shape.sequence};
  return looked_up(grid(fmt::format("attention_{}_{}.csv", shape.type, accelerator_), "forward",
                        {{"head", key(shape.head)}, {"window", key(shape.window)}},
                        {{"batch", kLog}, {"heads", kLog}, {"group", kLog}}, kLog, model),
                   size, model);
}

OperatorTime OperatorLookup::latent_attention(const LatentAttentionShape& shape) {
  const auto model = [machine = machine_](std::span<const double> size) {  // a head of 160: the mean of both
    return attention_by_constants(machine->device, {"bf16", size[0], size[2], size[1], size[1], 160, 0});
  };
  const std::array<double, 3> size = {shape.batch, shape.heads, shape.sequence};
  return looked_up(
      grid("latent_attention.csv", accelerator_, {}, {{"batch", kLog}, {"heads", kLog}}, kLog, model), size,
      model);
}

OperatorTime OperatorLookup::experts(const ExpertsShape& shape) {
  const auto of_size = [shape](std::span<const double> size) {
    ExpertsShape other = shape;
    other.tp = size[0], other.ep = size[1], other.tokens = size[2];
    return other;
  };
  const auto model = [&](std::span<const double> size) {
    return experts_by_constants(machine_->device, of_size(size));
  };
  const auto roofline = [machine = machine_, of_size](std::span<const double> size) {
    return experts_roofline(machine->device, of_size(size));
  };
  const std::array<double, 3> size = {shape.tp, shape.ep, shape.tokens};
  return looked_up(grid(fmt::format("experts_{}_{}.csv", shape.type, accelerator_), "forward",
                        {{"hidden", key(shape.hidden)},
                         {"ffn", key(shape.ffn)},
                         {"choices", key(shape.choices)},
                         {"experts", key(shape.experts)},
                         {"skew", key(shape.skew)}},
                        {{"tp", Spacing::inverse}, {"ep", Spacing::inverse}}, Spacing::linear, roofline),
                   size, model);
}

OperatorTime OperatorLookup::collective(const CollectiveShape& shape) {
  const auto model = [machine = machine_, shape](std::span<const double> size) {
    return collective_by_constants(machine->network, {shape.operation, size[0], size[1]});
  };
  const std::array<double, 2> size = {shape.ranks, shape.bytes};
  return looked_up(grid("collectives.csv", accelerator_ + " " + shape.operation, {}, {{"ranks", kLog}},
                        Spacing::linear, model),
                   size, model);
}

OperatorTime OperatorLookup::cast(const CastShape& shape) {
  const auto model = [machine = machine_, shape](std::span<const double> size) {
    return cast_by_constants(machine->device, {shape.part, size[0], size[1]});
  };
  const std::array<double, 2> size = {shape.m, shape.k};
  return looked_up(grid("casts.csv", accelerator_ + " " + shape.part, {}, {{"m", kLog}}, kLog, model), size,
                   model);
}

OperatorTime OperatorLookup::exchange(const ExchangeShape& shape) {
  const auto model = [machine = machine_, shape](std::span<const double> size) {
    ExchangeShape other = shape;
    other.hidden = size[0], other.processors = size[1], other.tokens = size[2];
    return exchange_by_constants(machine->network, other);
  };
  const std::array<double, 3> size = {shape.hidden, shape.processors, shape.tokens};
  const TimeGrid* found = nullptr;
  for (const std::string_view table : kExchangeTables) {
    if (found != nullptr || (!shape.table.empty() && shape.table != table)) continue;
    found = grid("token_exchange.csv", accelerator_ + " " + shape.part,
                 {{"table", std::string(table)},
                  {"nodes", key(shape.nodes)},
                  {"ranks", key(shape.ranks)},
                  {"choices", key(shape.choices)},
                  {"experts", key(shape.experts)}},
                 {{"hidden", kLog}, {"processors", kLog}}, kLog, model);
  }
  return looked_up(found, size, model);
}

}  // namespace plumbline::silicon
