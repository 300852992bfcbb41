// The input end of the model: token embedding and learned positions.
#pragma once

#include <cstdint>

#include "bench/training/rank_resources.hpp"

namespace plumbline::training {

/// Of a first stage. The vocabulary is cut over the tensor ranks (Megatron-LM, arXiv:1909.08053 §3).
class InputEnd {
 public:
  InputEnd(RankResources& rank, const StageEntry& stage);

  /// In order of use.
  const std::vector<int>& units() const { return units_; }
  /// tokens (1, T). Overwrites x (R, h).
  void forward(const Matrix& tokens, const Matrix& x) const;
  void backward(const Matrix& tokens, const Matrix& gradient) const;

 private:
  RankResources& rank_;
  const Parameter& embedding_;
  const Parameter* positions_ = nullptr;  // null for rotary models
  std::vector<int> units_;
  const int tensor_rank_;
  std::int64_t first_token_;
};

}  // namespace plumbline::training
