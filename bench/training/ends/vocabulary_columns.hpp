// Range of the vocabulary in a rank's logits.
#pragma once

#include <cstdint>

namespace plumbline::training {

struct VocabularyColumns {
  std::int64_t first;  // id of the first column
  std::int64_t valid;  // columns that are no padding
};

}  // namespace plumbline::training
