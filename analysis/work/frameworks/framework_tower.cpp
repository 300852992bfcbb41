// A vision tower as Megatron-Bridge launches it besides its layers (NVIDIA-NeMo/Megatron-Bridge@067f987
// src/megatron/bridge/models/qwen_vl/modelling_qwen3_vl).
#include "analysis/step/vision_tower.hpp"
#include "analysis/work/framework_list.hpp"
#include "analysis/work/frameworks/framework_calls.hpp"

namespace plumbline {
namespace {

// Kernels per image that interpolate rows of the table of positions, and that make rotary angles
// (vision_model.py, fast_pos_embed_interpolate and rot_pos_emb); of a micro-batch besides.
constexpr double kInterpolation = 60;
constexpr double kAngles = 14;
constexpr double kOthers = 12;
// Kernels of a merger and of placing its result among the tokens (model.py, transformer_block.py).
constexpr double kMergerForward = 6;
constexpr double kMergerBackward = 14;
constexpr double kPlacing = 8;

void mergers_forward(const StageShape& s, const StageShape& merger, FrameworkCalls& calls) {
  const VisionTower& tower = s.vision.tower;
  const std::int64_t columns = tower.merged() / s.vision.tensor;
  for (std::int64_t i = 0; i <= tower.deepstack; ++i) {
    calls.stream("norm", s.vision.all_patches() * tower.hidden, 4);
    calls.gemm("merger", GemmPass::forward, columns, tower.merged());
    calls.stream("gelu", merger.stream.tokens * columns, 4);
    calls.gemm("merger", GemmPass::forward, tower.out, columns);
    calls.collective(CallKind::all_reduce, "tensor collectives forward", merger.stream.tokens * tower.out,
                     s.numerics.type);
  }
}

void mergers_backward(const StageShape& s, const StageShape& merger, FrameworkCalls& calls) {
  const VisionTower& tower = s.vision.tower;
  const std::int64_t columns = tower.merged() / s.vision.tensor;
  const auto product = [&](std::int64_t out, std::int64_t in) {
    calls.gemm("merger", GemmPass::input_gradient, out, in);
    if (s.vision.trains_mergers) calls.gemm("merger", GemmPass::weight_gradient, out, in);
  };
  for (std::int64_t i = 0; i <= tower.deepstack; ++i) {
    product(tower.out, columns);
    calls.stream("gelu backward", merger.stream.tokens * columns, 6);
    product(columns, tower.merged());
    calls.collective(CallKind::all_reduce, "tensor collectives backward",
                     merger.stream.tokens * tower.merged(), s.numerics.type);
    calls.stream("norm backward", s.vision.all_patches() * tower.hidden, 10);
  }
}

}  // namespace

void tower_tables(const StageShape& s, bool backward, UnitWork& work) {
  const VisionTower& tower = s.vision.tower;
  const StageShape layer = tower_layers(s).front().layer;
  FrameworkCalls calls(layer, work);
  const std::int64_t stream = s.vision.all_patches() * tower.hidden;
  if (backward) {
    calls.gemm("patches", GemmPass::weight_gradient, tower.hidden, tower.patch);
    if (tower.positions > 0) calls.stream("positions", 4 * stream, 6);
    return calls.launches_eagerly(kOthers);
  }
  calls.stream("cast", s.vision.all_patches() * tower.patch, 6);  // fp32 pixels
  calls.gemm("patches", GemmPass::forward, tower.hidden, tower.patch);
  // Four rows of the table and their weights for each patch; the sum is added to the patches.
  if (tower.positions > 0) calls.stream("positions", 4 * stream, 10);
  if (tower.positions > 0) calls.stream("add", stream, 6);
  const double images = static_cast<double>(s.vision.images);
  calls.launches_eagerly(kOthers + images * (kAngles + (tower.positions > 0 ? kInterpolation : 0)));
}

void tower_mergers(const StageShape& s, bool backward, UnitWork& work) {
  const StageShape merger = tower_merger(s);
  const std::int64_t count = 1 + s.vision.tower.deepstack;
  {
    FrameworkCalls calls(merger, work);
    if (!backward) mergers_forward(s, merger, calls);
    if (backward && s.vision.has_backward()) mergers_backward(s, merger, calls);
  }
  FrameworkCalls calls(s, work);
  // The language model's stream is copied to be indexed by sequence, and back.
  calls.stream("image tokens", s.stream.tokens * s.stream.hidden, backward ? 8 : 12);
  calls.stream("image tokens", (count - 1) * s.stream.rows * s.stream.hidden, 12);
  calls.stream("image tokens", count * s.vision.tokens() * s.vision.tower.out, 6);
  const double merging = backward ? (s.vision.has_backward() ? kMergerBackward : 0) : kMergerForward;
  calls.launches_eagerly(static_cast<double>(count) * (kPlacing + merging));
}

}  // namespace plumbline
