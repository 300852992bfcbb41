#include "bench/run/recovery/failure_sequence.hpp"

#include <cmath>
#include <utility>

namespace plumbline {

FailureSequence::FailureSequence(FailureSpec spec, int ranks)
    : spec_(std::move(spec)), ranks_(ranks), random_(spec_.seed) {
  advance();
}

/// From the bits of a generator that is the same everywhere: distributions of the library are not.
void FailureSequence::advance() {
  const double uniform = static_cast<double>(random_() >> 11U) * 0x1p-53;  // in [0, 1)
  next_.at += {-spec_.mtbf.value * std::log1p(-uniform)};
  next_.kind = spec_.kinds[random_() % spec_.kinds.size()];
  next_.rank = static_cast<int>(random_() % static_cast<std::uint64_t>(ranks_));
}

}  // namespace plumbline
