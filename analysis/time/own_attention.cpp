#include "analysis/time/own_attention.hpp"

#include <algorithm>
#include <cmath>

namespace plumbline {
namespace {

struct OwnShares {
  double forward = 0;
  double backward = 0;
  double of(bool is_backward) const { return is_backward ? backward : forward; }
};

// Recorded on an H100 SXM (results/recorded/nvidia-h100-80gb-hbm3/rates.jsonl, "by own" at the longest
// sequence of each head size, and "operator rates" in fp32), over its peaks of 989.4 and 66.9 TFLOP/s. Other
// devices are taken to reach the same shares, which is a guess.
constexpr OwnShares kHeads128 = {207.4 / 989.4, 137.1 / 989.4};
constexpr OwnShares kHeads64 = {164.1 / 989.4, 81.9 / 989.4};
constexpr OwnShares kFp32 = {7.5 / 66.9, 4.6 / 66.9};

constexpr std::int64_t kOwnTile = 64;  // query rows of a block (kernels/cuda/attention/attention_tensor.cu)

double own_share(const AttentionCall& call, DType type) {
  if (type == DType::fp32) return kFp32.of(call.backward);
  const double small = kHeads64.of(call.backward);
  const double large = kHeads128.of(call.backward);
  return small + std::clamp((static_cast<double>(call.head_dim) - 64) / 64, 0.0, 1.0) * (large - small);
}

}  // namespace

std::optional<AttentionCall> by_own_kernels(const AttentionCall& call, DType type) {
  const bool part = call.past > 0 || call.keys > 0;
  if (!call.own_step || call.unfused || !part) return std::nullopt;
  AttentionCall own = call;
  own.own_step = false;
  own.most_share = own_share(call, type);
  return own;
}

double own_part_seconds(const AttentionCall& call, DType type, const Device& device) {
  const auto queries = static_cast<double>(call.queries);
  const double tiles = std::ceil(queries / kOwnTile);
  const double blocks = static_cast<double>(call.heads) * tiles;
  const double flops = (call.backward ? 10 : 4) * static_cast<double>(call.heads * call.head_dim) *
                       pairs_of(call) * tiles * kOwnTile / queries;
  const double peak = type == DType::fp32 ? device.peak_fp32 : device.peak_16bit;
  // A block has one processor; with fewer blocks the others are idle.
  const double idle = std::max(device.processors / blocks, 1.0);
  return device.kernel_s + flops / (peak * call.most_share) * idle;
}

}  // namespace plumbline
