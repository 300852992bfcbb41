// Inputs and targets of MTP modules.
#pragma once

#include <cstdint>
#include <vector>

namespace plumbline::training {

/// (modules, tokens) ids each, module after module: module k has the inputs and targets k ahead in the same
/// sequence, whichever rank has them. Beyond its end there are token 0 and no target (Megatron-LM's
/// roll_tensor).
struct TokensAhead {
  std::vector<std::int32_t> inputs;
  std::vector<std::int32_t> targets;
  std::vector<std::int64_t> counted;  // targets of the global batch, by module
};

}  // namespace plumbline::training
