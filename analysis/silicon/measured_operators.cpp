#include "analysis/silicon/measured_operators.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "analysis/silicon/embedded.hpp"
#include "analysis/silicon/measured_table.hpp"

namespace plumbline::silicon {
namespace {

constexpr Spacing kLog = Spacing::logarithmic;
constexpr const char* kTypes[] = {"bf16", "fp8", "nvfp4"};
constexpr const char* kCollectives[] = {"all_reduce", "all_gather", "reduce_scatter", "alltoall"};

auto tables_in(const std::string& file) {
  return parse_measured_tables(embedded_text(silicon_files(), file), file);
}

}  // namespace

/// Grids of one type of products.
struct ProductGrids {
  std::once_flag once;
  std::optional<TimeGrid> burst, like_burst, like_sustained;

  void read(const std::string& type, const std::string& accelerator, const StepTables::Product& from) {
    const auto grid = [&](const auto& tables, const char* section) {
      return grid_of(tables.at(section), {}, {{"n", kLog}, {"k", kLog}}, kLog, from.model);
    };
    burst = grid(tables_in(fmt::format("products_{}_{}.csv", type, accelerator)), "burst");
    if (from.clocks.like.empty()) return;
    const auto like = tables_in(fmt::format("products_{}_{}.csv", type, from.clocks.like));
    like_burst = grid(like, "burst");
    like_sustained = grid(like, "sustained");
  }
};

/// Grids of the kernels that quantize an operand.
struct CastGrids {
  std::once_flag once;
  std::optional<TimeGrid> amax, cast;

  void read(const std::string& accelerator, const SecondsOfPoint& model) {
    const auto tables = tables_in("casts.csv");
    const auto grid = [&](const char* part) {
      return grid_of(tables.at(fmt::format("{} {}", accelerator, part)), {}, {{"m", kLog}}, kLog, model);
    };
    amax = grid("amax");
    cast = grid("cast");
  }
};

struct AttentionGrids {
  using Sizes = std::pair<double, double>;  // head and window
  std::once_flag once;
  std::map<Sizes, std::optional<TimeGrid>> forward, backward;

  template <typename Model>
  static void read(const MeasuredTable& table, const std::vector<KeyAxis>& along, const Model& model,
                   std::map<Sizes, std::optional<TimeGrid>>& grids) {
    for (const MeasuredTable::Line& line : table.lines) {
      const std::string head(line.keys.at(0)), window(line.keys.at(1));
      const Sizes sizes{std::stod(head), std::stod(window)};
      auto& grid = grids[sizes];
      if (grid) continue;
      grid =
          grid_of(table, {{"head", head}, {"window", window}}, along, kLog, model(sizes.first, sizes.second));
    }
  }
  void read(const StepTables& from) {
    if (from.attention) {
      const auto tables = tables_in(fmt::format("attention_bf16_{}.csv", from.accelerator));
      read(tables.at("forward"), {{"batch", kLog}, {"heads", kLog}, {"group", kLog}}, from.attention,
           forward);
    }
    if (from.attention_backward) {
      const auto tables = tables_in("backward_attention.csv");
      read(tables.at(from.accelerator + " backward"), {{"heads", kLog}}, from.attention_backward, backward);
    }
  }
};

struct CollectiveGrids {
  std::once_flag once;
  std::array<std::optional<TimeGrid>, std::size(kCollectives)> by_operation;

  void read(const StepTables& from) {
    const auto tables = tables_in("collectives.csv");
    for (std::size_t i = 0; i < by_operation.size(); ++i) {
      by_operation[i] =
          grid_of(tables.at(fmt::format("{} {}", from.accelerator, kCollectives[i])), {}, {{"ranks", kLog}},
                  Spacing::linear, from.collectives(static_cast<Collective>(i)));
    }
  }
};

struct MeasuredOperators::Grids {
  std::array<ProductGrids, 3> products;
  CastGrids casts;
  AttentionGrids attention;
  CollectiveGrids collectives;
};

MeasuredOperators::MeasuredOperators(StepTables tables)
    : tables_(std::move(tables)), grids_(std::make_unique<Grids>()) {}
MeasuredOperators::~MeasuredOperators() = default;

std::optional<Measured> MeasuredOperators::product(ProductType type, double m, double n, double k) const {
  const auto t = static_cast<std::size_t>(type);
  if (!tables_.products[t]) return std::nullopt;
  ProductGrids& of = grids_->products[t];
  std::call_once(of.once, [&] { of.read(kTypes[t], tables_.accelerator, *tables_.products[t]); });
  // Many rows of a narrow result are the same product the other way round.
  if (m > of.burst->axes()[2].values.back() && n < m) std::swap(m, n);
  const std::array<double, 3> size = {n, k, m};
  const auto burst = of.burst->at(size);
  Measured found{burst->seconds, burst->basis};
  if (of.like_sustained) {
    const double longer = of.like_sustained->at(size)->seconds / of.like_burst->at(size)->seconds;
    found.seconds *= std::max(1.0, longer / tables_.products[t]->clocks.more_clock);
  }
  if (type == ProductType::bf16) return found;
  // The table's time has the quantizing of A: by its largest value, or of 4 bits by the bytes of a cast.
  CastGrids& casts = grids_->casts;
  std::call_once(casts.once, [&] { casts.read(tables_.accelerator, tables_.casts); });
  const std::array<double, 2> operand = {m, k};
  const double cast = casts.cast->at(operand)->seconds;
  const double quantizing =
      type == ProductType::fp8 ? casts.amax->at(operand)->seconds + cast : cast * 2.5 / 3;
  found.seconds = std::max(found.seconds - quantizing, 0.5 * found.seconds);
  return found;
}

std::optional<Measured> MeasuredOperators::collective(Collective operation, double ranks,
                                                      double bytes) const {
  if (!tables_.collectives || bytes <= 0) return std::nullopt;
  CollectiveGrids& all = grids_->collectives;
  std::call_once(all.once, [&] { all.read(tables_); });
  const TimeGrid& grid = *all.by_operation[static_cast<std::size_t>(operation)];
  if (ranks > grid.axes()[0].values.back()) return std::nullopt;
  const auto found = grid.at(std::array<double, 2>{ranks, bytes});
  return Measured{found->seconds, found->basis};
}

std::optional<Measured> MeasuredOperators::attention(double heads, double group, double sequence, double head,
                                                     double window) const {
  if (!tables_.attention) return std::nullopt;
  AttentionGrids& all = grids_->attention;
  std::call_once(all.once, [&] { all.read(tables_); });
  const auto grid = all.forward.find({head, window});
  if (grid == all.forward.end() || !grid->second) return std::nullopt;
  const double batch = std::max(1.0, heads / grid->second->axes()[1].values.back());
  const auto found = grid->second->at(std::array<double, 4>{batch, heads / batch, group, sequence});
  return Measured{found->seconds, found->basis};
}

std::optional<Measured> MeasuredOperators::attention_backward(double heads, double sequence, double head,
                                                              double window) const {
  if (!tables_.attention_backward) return std::nullopt;
  AttentionGrids& all = grids_->attention;
  std::call_once(all.once, [&] { all.read(tables_); });
  const auto grid = all.backward.find({head, window});
  if (grid == all.backward.end()) return std::nullopt;
  const auto found = grid->second->at(std::array<double, 2>{heads, sequence});
  return Measured{found->seconds, found->basis};
}

}  // namespace plumbline::silicon
