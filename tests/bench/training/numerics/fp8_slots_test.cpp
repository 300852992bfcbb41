// Scales of the places that are quantized: where they come from, how long values count, and that all ranks
// that hold a place agree.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "bench/plan/plan.hpp"
#include "bench/training/linear/fp8_slots.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "kernels/cpu/cpu_operators.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::fp8_slots_test {
namespace {

using Place = Fp8Slots::Place;

RunConfig config_of(const Layout& layout, const char* schedule) {
  RunConfig config;
  config.model = small_qwen2();
  config.model.layers = 5;  // parts of different lengths
  set_layout(config, layout);
  config.parallel.pp.schedule = schedule;
  config.numerics.precision = DType::fp32;
  config.numerics.fp8.format = Fp8Format::hybrid;
  config.numerics.fp8.margin = 1;
  config.numerics.fp8.amax_history_len = 2;
  config.batch.seq_length = 16;
  config.batch.global_batch_size = 8 * layout.data;
  return config;
}

/// The slots of one rank and their dependencies.
struct Rank {
  explicit Rank(const RunConfig& config_)
      : config(config_),
        communicator(config.layout()),
        placement(schedule_for(config)),
        at(config.layout().coordinates(communicator.rank())),
        parameters(rank_parameters(config, placement, at)) {}

  /// Quantizes a matrix whose largest absolute value is `largest` and returns the scale it was given.
  double quantize(const Place& place, double largest) {
    std::vector<float> values(8, 0.0F);
    values[3] = -static_cast<float>(largest);
    const LinearOperand y =
        slots.quantized(place, Category::workspace, "test", Matrix(values.data(), 2, 4, DType::fp32));
    return 1.0 / *y.inverse_scale().as<float>();
  }
  double scale(const Place& place) const { return 1.0 / *slots.inverse_scale(place).as<float>(); }

  RunConfig config;
  MpiCommunicator communicator;
  StageMap placement;
  Coordinates at;
  RankParameters parameters;
  std::unique_ptr<Operators> operators = make_cpu_operators();
  Arena arena{{}, host_memory()};
  Seconds tensor_communication;
  TrainingContext context{config, LayerWidths(config), *operators, communicator, arena, tensor_communication};
  Fp8Slots slots{context, parameters};
};

constexpr double kRounding = 1e-6;   // fp32 divisions
constexpr double kE4m3 = 448.0 / 2;  // with a margin of 1
constexpr double kE5m2 = 57344.0 / 2;

TEST(Fp8Slots, DelayedScalesLookBackAsFarAsTheHistory) {
  if (world_ranks() > 1) GTEST_SKIP() << "one rank is enough";
  Rank rank(config_of({}, "1f1b"));
  const Place input{3, LinearLayer::fc1, SlotKind::input};
  const Place gradient{3, LinearLayer::fc1, SlotKind::gradient};
  const Place zero{1, LinearLayer::proj, SlotKind::weight};
  const Place odd{4, LinearLayer::fc2, SlotKind::gradient};
  EXPECT_NEAR(rank.quantize(input, 8) / (kE4m3 / 8), 1, kRounding);
  EXPECT_NEAR(rank.quantize(input, 16) / (kE4m3 / 8), 1, kRounding) << "a step has one scale";
  EXPECT_NEAR(rank.quantize(gradient, 1e-3) / (kE5m2 / 1e-3), 1, kRounding);
  EXPECT_EQ(rank.quantize(zero, 0), 1);
  EXPECT_NEAR(rank.quantize(odd, 5) / (kE5m2 / 5), 1, kRounding);
  EXPECT_NEAR(rank.quantize(odd, std::numeric_limits<double>::infinity()) / (kE5m2 / 5), 1, kRounding);
  rank.slots.end_step(1);
  EXPECT_NEAR(rank.scale(input) / (kE4m3 / 16), 1, kRounding);
  EXPECT_NEAR(rank.scale(gradient) / (kE5m2 / 1e-3), 1, kRounding);
  EXPECT_EQ(rank.scale(zero), 1);
  EXPECT_NEAR(rank.scale(odd) / (kE5m2 / 5), 1, kRounding) << "infinite: stays what it was";
  EXPECT_NEAR(rank.quantize(input, 2) / (kE4m3 / 16), 1, kRounding);
  rank.slots.end_step(1);
  EXPECT_NEAR(rank.scale(input) / (kE4m3 / 16), 1, kRounding) << "the history has 16 and 2";
  rank.quantize(input, 4);
  rank.slots.end_step(1);
  EXPECT_NEAR(rank.scale(input) / (kE4m3 / 4), 1, kRounding) << "the history has 2 and 4";
  rank.quantize(odd, 3);
  rank.slots.end_step(1);
  rank.slots.end_step(1);
  EXPECT_NEAR(rank.scale(odd) / (kE5m2 / 3), 1, kRounding) << "the infinite value is forgotten";
}

/// A value of a place in a part of the model, as a rank meets it.
double value_of(int world_rank, int part, std::int64_t layer, std::int64_t slot) {
  return 1 + static_cast<double>((world_rank * 37 + part * 11 + layer * 5 + slot * 3) % 23);
}

/// Every expert's largest value is that of the ranks that have it; one that no row came to keeps its scale.
TEST(Fp8Slots, RanksThatHoldAnExpertAgree) {
  for (const Layout& layout : layouts_of(world_ranks())) {
    if (layout.pipeline > 4) continue;
    for (const int expert : {1, 2}) {
      if (layout.data % expert != 0) continue;
      RunConfig config = config_of(layout, "1f1b");
      config.model.mixture = {8, 2, true};
      config.parallel.expert = expert;
      Rank rank(config);
      Fp8Slots experts(rank.context, rank.parameters, SlotsOf::experts);
      const std::int64_t here = 8 / expert;
      const Layout& ranks = rank.communicator.layout();
      // The row of expert e, 0 except for one number; the last expert has none.
      const auto value = [&](int world_rank, std::int64_t e) { return 1.0 + (world_rank * 7 + 3 * e) % 11; };
      std::vector<float> values(static_cast<std::size_t>(here) * 4, 0.0F);
      std::vector<std::int64_t> rows(static_cast<std::size_t>(here), 1);
      rows.back() = 0;
      const std::int64_t first = here * ranks.expert_place(rank.at).part;
      for (std::int64_t e = 0; e < here; ++e)
        values[static_cast<std::size_t>(e) * 4 + 2] =
            static_cast<float>(value(rank.communicator.rank(), first + e));
      for (const LinearLayer linear : {LinearLayer::fc1, LinearLayer::fc2}) {
        for (const SlotKind kind : {SlotKind::input, SlotKind::gradient}) {
          experts.quantized_rows({0, linear, kind}, Category::workspace, "test",
                                 Matrix(values.data(), here - 1, 4, DType::fp32), rows);
        }
      }
      experts.end_step(1);
      for (std::int64_t e = 0; e < here; ++e) {
        double largest = 0;
        for (int other = 0; other < layout.world(); ++other) {
          const Coordinates at = ranks.coordinates(other);
          if (at.pipeline == rank.at.pipeline &&
              ranks.expert_place(at).part == ranks.expert_place(rank.at).part)
            largest = std::max(largest, value(other, first + e));
        }
        const bool none = e == here - 1;
        for (const LinearLayer linear : {LinearLayer::fc1, LinearLayer::fc2}) {
          const auto scale = [&](SlotKind kind) {
            return 1.0 / *experts.inverse_scale({0, linear, kind, e}).as<float>();
          };
          EXPECT_NEAR(scale(SlotKind::input) / (none ? 1 : kE4m3 / largest), 1, kRounding) << e;
          EXPECT_NEAR(scale(SlotKind::gradient) / (none ? 1 : kE5m2 / largest), 1, kRounding) << e;
          EXPECT_EQ(scale(SlotKind::weight), 1) << e;
        }
      }
    }
  }
}

TEST(Fp8Slots, RanksThatHoldAPlaceAgree) {
  for (const Layout& layout : layouts_of(world_ranks())) {
    for (const std::string kind : {"1f1b", "dualpipe", "latent 1f1b", "latent dualpipe"}) {
      const bool latent = kind.starts_with("latent");  // which has two linear layers more
      const int linears = latent ? 6 : 4;
      const std::string schedule = latent ? kind.substr(7) : kind;
      RunConfig config = config_of(layout, schedule.c_str());
      if (latent) config.model = small_deepseek(true);
      config.model.layers = 5;
      if (layout.pipeline > 4 || (schedule == "dualpipe" && layout.pipeline % 2 != 0)) continue;
      Rank rank(config);
      const int routes = rank.placement.routes;
      const auto for_all_places = [&](const auto& visit) {
        std::int64_t on_rank = 0;
        for (const StageEntry& stage : rank.parameters.stages) {
          for (std::int64_t layer = 0; layer < stage.part.layers; ++layer, ++on_rank) {
            for (int slot = 0; slot < 3 * linears; ++slot) {
              const Place place{on_rank, static_cast<LinearLayer>(slot % linears),
                                static_cast<SlotKind>(slot / linears)};
              visit(place, stage.part.index, layer, slot);
            }
          }
        }
      };
      for_all_places([&](const Place& place, int part, std::int64_t layer, int slot) {
        rank.quantize(place, value_of(rank.communicator.rank(), part, layer, slot));
      });
      rank.slots.end_step(routes);
      for_all_places([&](const Place& place, int part, std::int64_t layer, int slot) {
        double largest = 0;
        for (int other = 0; other < layout.world(); ++other) {
          const int pipeline = rank.communicator.layout().coordinates(other).pipeline;
          const bool holds = pipeline == rank.at.pipeline ||
                             (routes > 1 && pipeline == layout.pipeline - 1 - rank.at.pipeline);
          if (holds) largest = std::max(largest, value_of(other, part, layer, slot));
        }
        const double expected = (slot >= 2 * linears ? kE5m2 : kE4m3) / largest;
        EXPECT_NEAR(rank.scale(place) / expected, 1, kRounding)
            << fmt::format("tp{} pp{} dp{} {}, part {}, layer {}, slot {}", layout.tensor, layout.pipeline,
                           layout.data, schedule, part, layer, slot);
      });
    }
  }
}

}  // namespace
}  // namespace plumbline::training::fp8_slots_test
