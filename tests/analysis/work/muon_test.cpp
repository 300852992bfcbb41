// Muon's matrices, products and memory, of the own step and of Megatron-Core's, against closed forms.
#include <gtest/gtest.h>

#include <string>

#include "analysis/memory/framework_memory.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "analysis/work/framework_list.hpp"
#include "analysis/work/muon.hpp"
#include "core/config/config_checks.hpp"

namespace plumbline::muon_test {
namespace {

RunConfig config_of(const std::string& preset, const char* software, int tensor, int expert) {
  RunConfig config;
  config.model = *find_preset(preset);
  config.batch = {.seq_length = 4096, .micro_batch_size = 1, .global_batch_size = 64};
  config.numerics.precision = DType::bf16;
  config.parallel.tensor = tensor;
  config.parallel.expert = expert;
  config.parallel.world_size = 16;
  config.parallel.dp.zero_stage = 1;
  config.machine.hardware = "h100-sxm-80gb";
  config.machine.software = software;
  config.optimizer.kind = Optimizer::muon;
  return config;
}

// All elements of layers' matrices are in one block.
TEST(Muon, BlocksAreAllMatricesOfLayers) {
  int compared = 0;
  for (const std::string& preset : preset_names()) {
    for (const char* software : {"plumbline", "megatron-core"}) {
      for (const int tensor : {1, 2}) {
        for (const int expert : {1, 2}) {
          const RunConfig config = config_of(preset, software, tensor, expert);
          if (why_invalid(config)) continue;
          if (config.machine.own_step() && config.model.mamba_layers() > 0) continue;  // not its own
          const StageShape s = stage_shapes(config, 1).front();
          std::int64_t elements = 0;
          std::int64_t padded = 0;
          for (const ParameterUnit& unit : units_of(s)) {
            if (unit.kind != UnitKind::layer && unit.kind != UnitKind::experts) continue;
            elements += unit.elements;
            padded += unit.padded;
          }
          std::int64_t in_blocks = 0;
          std::int64_t in_units = 0;
          for (const OrthogonalUnit& of : orthogonal_units(s)) {
            in_units += of.count * of.unit.padded;
            for (const OrthogonalBlock& block : of.blocks) in_blocks += of.count * block.elements();
          }
          EXPECT_EQ(in_blocks, elements) << preset << " " << software << " tp" << tensor << " ep" << expert;
          EXPECT_EQ(in_units, padded) << preset << " " << software << " tp" << tensor << " ep" << expert;
          ++compared;
        }
      }
    }
  }
  EXPECT_GT(compared, 200);
}

// Jordan et al. 2024: at most T·m/B of a step's FLOPs, of T steps, width m and B tokens; with F = 4m between
// attention's m² matrices and the feed-forward's the sum is 3.75 to 5 times m/B.
TEST(Muon, ProductsAreASmallShareOfLargeBatches) {
  const RunConfig config = config_of("gpt2-124m", "plumbline", 1, 1);
  const StageShape s = stage_shapes(config, 1).front();
  double flops = 0;
  double elements = 0;
  for (const OrthogonalUnit& of : orthogonal_units(s)) {
    for (const OrthogonalBlock& block : of.blocks) {
      flops += static_cast<double>(of.count) * newton_schulz_flops(s, block);
      elements += static_cast<double>(of.count * block.elements());
    }
  }
  constexpr double kTokens = 524288;
  const double share = flops / (6 * elements * kTokens);
  EXPECT_LE(share, 5 * 768 / kTokens);
  EXPECT_GE(share, 3.75 * 768 / kTokens);
}

double held_states(RunConfig config, Optimizer kind) {
  config.optimizer.kind = kind;
  const std::vector<StageShape> stages = stage_shapes(config, 1);
  return static_cast<double>(framework_held_bytes(stages)[Category::optimizer].value);
}

double flops_of(const RunConfig& config) {
  HeldStages rank;
  rank.held = stage_shapes(config, 1);
  rank.layout = config.layout();
  double flops = 0;
  for (const OperatorCall& call : framework_update_calls(rank)) {
    const auto* gemm = call.as<GemmCall>();
    if (gemm != nullptr)
      flops += 2.0 * static_cast<double>(gemm->tokens * gemm->out * gemm->in * call.count) * call.share;
  }
  return flops;
}

// Four bytes less of every element of a layer's matrices; products are spread over owners.
TEST(Muon, OfMegatronCoreHasOneMomentAndOneOwner) {
  RunConfig config = config_of("llama-3.1-8b", "megatron-core", 1, 1);
  const double matrices = 32 * (4096.0 * 6144 + 4096.0 * 4096 + 3 * 4096.0 * 14336);
  EXPECT_NEAR(held_states(config, Optimizer::adam) - held_states(config, Optimizer::muon), 4 * matrices / 16,
              1e3);
  const double spread = flops_of(config);
  config.parallel.dp.zero_stage = 0;
  EXPECT_NEAR(flops_of(config) / spread, 16, 1e-6);
  config.optimizer.kind = Optimizer::adam;
  EXPECT_EQ(flops_of(config), 0);
}

}  // namespace
}  // namespace plumbline::muon_test
