// LoRA adapters in a framework's operator lists (Hu et al. 2021, arXiv:2106.09685). Alongside a frozen
// product with W there is a product into r features and one back, in the storage type. Tensor parallelism
// shards an adapter as Megatron's ParallelLinearAdapter does. One side is sharded like W, the other by its r
// or hidden features, with one collective of r features per token in between.
#pragma once

#include "analysis/work/frameworks/framework_calls.hpp"
#include "analysis/work/parameter_units.hpp"

namespace plumbline {

/// Calls and launches of one adapter.
class AdapterCalls {
 public:
  AdapterCalls(const StageShape& shape, FrameworkCalls& calls) : s_(shape), calls_(calls) {}

  /// Appends the forward of every adapter of a layer and returns how many operators are launched.
  double forward() {
    return each([this](const AdaptedProduct& p) {
      calls_.gemm("adapter", GemmPass::forward, p.narrow, p.in);
      reduced();
      calls_.gemm("adapter", GemmPass::forward, p.out, p.wide);
      calls_.stream("adapter add", s_.stream.tokens * p.out, 6);
      return 5.0;
    });
  }
  double backward_input() {
    return each([this](const AdaptedProduct& p) {
      calls_.gemm("adapter", GemmPass::input_gradient, p.out, p.wide);
      reduced();
      calls_.gemm("adapter", GemmPass::input_gradient, p.narrow, p.in);
      calls_.stream("adapter add", s_.stream.tokens * p.in, 6);
      return 5.0;
    });
  }
  double backward_weight() {
    return each([this](const AdaptedProduct& p) {
      calls_.gemm("adapter", GemmPass::weight_gradient, p.out, p.wide);
      calls_.gemm("adapter", GemmPass::weight_gradient, p.narrow, p.in);
      return 2.0;
    });
  }

 private:
  template <class Append>
  double each(const Append& append) {
    double operators = 0;
    for (const AdaptedProduct& product : adapted_products(s_)) operators += append(product);
    return operators;
  }
  void reduced() {
    calls_.collective(CallKind::all_gather, "adapter collective", s_.stream.tokens * s_.adapters.rank,
                      s_.numerics.type);
  }

  const StageShape& s_;
  FrameworkCalls& calls_;
};

}  // namespace plumbline
