// The target that stands for none, as in PyTorch's cross_entropy (ignore_index).
#pragma once

#include <cstdint>

namespace plumbline {

/// A row with this target has no loss and no gradient.
inline constexpr std::int32_t kIgnoredTarget = -100;

}  // namespace plumbline
