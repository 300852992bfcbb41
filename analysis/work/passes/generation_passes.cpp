// Passes of generation: the forward of a training step without its loss, over a KV cache.
#include <algorithm>
#include <cmath>
#include <string_view>

#include "analysis/work/generation_list.hpp"
#include "analysis/work/passes/end_passes.hpp"
#include "analysis/work/passes/layer_part.hpp"
#include "analysis/work/passes/layer_passes.hpp"

namespace plumbline {
namespace passes {
namespace {

/// Decoding over a cache of compressed vectors: queries and results take the up-projections, and each head
/// attends to the same vectors (DeepSeek-V2, arXiv:2405.04434, section 2.1.2).
void attend_compressed(const StageShape& s, AttentionCall& attention) {
  attention.latent = s.attention.kv_rank + s.attention.rotated;
  attention.head_dim = s.attention.kv_rank + s.attention.rotated / 2;  // mean of keys' and values'
  attention.group = attention.heads / s.stream.batch;
}

/// New keys and values go into the cache before attention, which reads them there. Both work sequence by
/// sequence, unless batched.
void attend_cache(const StageShape& s, CallList& list, std::int64_t past, bool batched) {
  std::vector<OperatorCall> calls;
  for (OperatorCall& call : list.calls) {
    if (call.as<AttentionCall>() != nullptr) {
      auto& attention = call.get<AttentionCall>();
      attention.past = past;
      attention.cached = past > 0;
      attention.own_step = !batched && (s.software == nullptr || s.software->own_step);
      if (batched && past > 0 && s.attention.latent()) attend_compressed(s, attention);
    }
    if (call.as<AttentionCall>() != nullptr && !batched) {
      for (const std::int64_t width : {s.attention.k, s.attention.values()}) {
        calls.push_back(CallList::memory_call("copy", s.stream.seq * width, 2 * e(s), s.numerics.type));
        calls.back().label = "copy into KV cache";
        calls.back().count = s.stream.batch;
      }
      auto& attention = call.get<AttentionCall>();
      attention.heads /= s.stream.batch;
      call.count *= s.stream.batch;
    }
    calls.push_back(call);
  }
  list.calls = std::move(calls);
}

/// Experts as inference engines run them: two grouped products over the rows of all that have tokens.
/// Sorting, activation and sum are kernels of the same operator (vLLM fused_moe.py, SGLang
/// fused_moe_triton, TensorRT-LLM's CUTLASS kernels), which those products have the time of.
void fuse_experts(const StageShape& s, CallList& list) {
  if (!s.mixture()) return;
  const std::int64_t rows = s.mlp_rows();
  const double reached = reached_experts(s);
  const auto within = [&](const OperatorCall& call) {
    const std::string_view name = call.name();
    return name == "arrange" || name == "combine_rows" ||
           (name == "swiglu_forward" && call.elements() == rows * s.mlp.fc1) ||
           (name == "scale_rows" && call.elements() == rows * s.mlp.ffn);
  };
  std::vector<OperatorCall> calls;
  std::string_view last;
  for (OperatorCall& call : list.calls) {
    const std::string_view label = call.label;
    const bool expert = call.as<GemmCall>() != nullptr && (label == "fc1" || label == "fc2");
    if (within(call) || (expert && label == last)) continue;
    if (expert) {
      auto& gemm = call.get<GemmCall>();
      gemm.tokens = rows;
      gemm.grouped = true;
      gemm.reached = reached;
      call.count = 1;
      last = label;
    }
    calls.push_back(call);
  }
  list.calls = std::move(calls);
}

/// Rows of the rotary tables, by the position of every token.
void rotary_rows(const StageShape& s, WorkBuilder& builder) {
  if (!s.attention.rotary) return;
  builder.once({}, 0, [&](CallList& list) {
    for (int table = 0; table < 2; ++table)
      list.memory("embedding_forward", s.stream.tokens * s.attention.rotated / 2, 8, DType::fp32);
  });
}

constexpr std::int64_t kChoiceNumbers = 3;  // of a row of Operators::greedy_choice

/// The stage's shape for one token of every sequence.
StageShape last_tokens(StageShape s) {
  s.stream.seq = 1;
  s.stream.tokens = s.stream.rows = s.stream.batch;
  return s;
}

void next_token(const StageShape& s, WorkBuilder& builder) {
  const StageShape one = last_tokens(s);
  builder.once({}, 0, [&](CallList& unused) {
    CallList list(one);
    list.memory("embedding_forward", one.stream.tokens * one.stream.hidden,
                2 * e(one));  // rows of last tokens
    norm_forward(one, list);
    multiply_logits(one, list);
    output_product(one, list);
    const std::int64_t logits = one.stream.tokens * one.ends.vocab;
    const int shards = one.sharding.tensor;
    list.memory("greedy_choice", logits, 4, DType::fp32);
    list.collective(CallKind::all_gather, "choices all-gather", Group::tensor, shards,
                    shards * kChoiceNumbers * one.stream.tokens, DType::fp32);
    list.allocations(4 + one.block.norm_rows);
    unused.calls = std::move(list.calls);
  });
}

}  // namespace
}  // namespace passes

double experts_reached(double experts, double chosen, double tokens) {
  return experts * (1 - std::pow(1 - chosen / experts, tokens));
}

double reached_experts(const StageShape& shape) {
  const auto rows = static_cast<double>(shape.mlp_rows()), all = static_cast<double>(shape.moe.experts),
             local = static_cast<double>(shape.local_experts());
  const double chosen = static_cast<double>(shape.moe.choices) / static_cast<double>(shape.stream.tokens);
  const double served = rows * all / (local * chosen);  // tokens of all its ranks
  return std::min(rows, local / all * experts_reached(all, chosen, served));
}

std::vector<OperatorCall> generation_calls(const StageShape& shape, std::int64_t past, bool batched) {
  WorkBuilder builder(shape);
  passes::rotary_rows(shape, builder);
  if (shape.place.first) {
    passes::embedding_forward(shape, builder);
    passes::embedded_forward(shape, builder);
  }
  const LayerParts layers(shape, [&](const StageShape& like, std::int64_t window) {
    return passes::layer_part(builder, like, {true, false}, [&](CallList& list) {
      passes::layer_forward(like, list, window, passes::Forward::first);
      passes::attend_cache(like, list, past, batched);
      if (batched) passes::fuse_experts(like, list);
    });
  });
  layers.run(builder, 0, shape.layers);
  if (shape.place.last) passes::next_token(shape, builder);
  return calls_of(builder.work);
}

}  // namespace plumbline
