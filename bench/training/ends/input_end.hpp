// The input end of the model: token embedding and learned positions.
#pragma once

#include <cstdint>

#include "bench/training/ends/embedding_shard.hpp"
#include "bench/training/ends/rank_resources.hpp"

namespace plumbline::training {

/// Input end of a first stage. The vocabulary is split over the tensor ranks (Megatron-LM, arXiv:1909.08053
/// §3), or over all ranks of the model: then the lookup is its shards' work.
class InputEnd {
 public:
  InputEnd(RankResources& rank, const StageEntry& stage, EmbeddingShard* shard = nullptr);
  /// Lookups only, in this table of that stage: for MTP modules.
  InputEnd(RankResources& rank, const StageEntry& stage, const Parameter& table);

  /// In order of use.
  const std::vector<int>& units() const { return units_; }
  /// tokens (1, T). Overwrites x (R, h).
  void forward(const Matrix& tokens, const Matrix& x) const;
  /// Split vocabulary: waits for the embedded tokens in x, (T, h), and adds positions. With sequence
  /// parallelism x becomes the tensor rank's rows.
  void finish_forward(std::uint32_t microbatch, Tensor& x) const;
  /// Backward of the tokens that forward embedded. Frees the gradient, or with a split vocabulary passes it
  /// to the shards.
  void backward(std::uint32_t microbatch, const Matrix& tokens, Tensor& gradient) const;

 private:
  /// Scales the embedded tokens, if the model does, and adds positions.
  void add_positions(const Matrix& x) const;
  template <class Use>
  void each_chunk(const Matrix& x, const Matrix& table, Use&& use) const;
  Matrix from_first_position(const Matrix& table) const;
  Tensor make_position_rows() const;

  RankResources& rank_;
  EmbeddingShard* shard_;                 // null unless the vocabulary is split
  const Parameter* embedding_ = nullptr;  // null if it is
  const Parameter* positions_ = nullptr;  // null if the model has none
  std::vector<int> units_;
  int embedding_unit_ = -1;
  int positions_unit_ = -1;
  const int tensor_rank_;
  std::int64_t first_token_;
  Tensor position_rows_;  // (2, T); empty unless a token has two learned positions
};

}  // namespace plumbline::training
