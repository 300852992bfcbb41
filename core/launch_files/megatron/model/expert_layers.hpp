// Lists of small numbers as Megatron-LM's arguments give them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plumbline {

/// The numbers of "1", "127,0", "[0,1,1]" or "([0]*3+[1]*58)"; empty when it is none of them or longer than
/// 10,000. Several values are joined.
std::vector<std::int64_t> expert_layers(const std::vector<std::string>& values);

}  // namespace plumbline
