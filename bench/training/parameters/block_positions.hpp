// The two positions of a token (PositionConfig::of_blocks).
#pragma once

#include <algorithm>
#include <cstdint>

namespace plumbline::training {

struct BlockPosition {
  std::int64_t position;  // of a prefix's token its own, of those behind it that of the prefix's last
  std::int64_t block;     // of a prefix's token 0, behind it 1, 2, …
};

/// Position of token `i` of a sequence with a prefix of `prefix` tokens (Du et al. 2022, arXiv:2103.10360
/// §2.2; chatglm-6b's get_position_ids).
inline BlockPosition block_position(std::int64_t i, std::int64_t prefix) {
  if (i < prefix) return {i, 0};
  return {std::max<std::int64_t>(prefix - 1, 0), i - prefix + 1};
}

}  // namespace plumbline::training
