#include "analysis/reinforcement/memory_moves.hpp"

#include <algorithm>

#include "analysis/time/host_copies.hpp"
#include "analysis/work/operator_list_calls.hpp"

namespace plumbline {

Load MemoryMoves::load(Bytes touched) const {
  Load load;
  load.layout = config_.layout();
  load.operands.apart = touched;
  const int processors = hardware_.processors(), ranks = load.layout.world();
  if (processors == 0) return load;
  load.busy = processors > 1 ? std::min(1.0, (ranks - 1.0) / (processors - 1)) : 0;
  load.sharing = std::max(1.0, static_cast<double>(ranks) / processors);
  return load;
}

Seconds MemoryMoves::to_host(Bytes bytes) const {
  const Load both = load(bytes * 2);
  return host_copy_time(bytes, hardware_, both) * both.sharing;
}

Seconds MemoryMoves::copy(Bytes bytes) const {
  const Load both = load(bytes * 2);
  return time_of(CallList::memory_call("copy", bytes.value / 4, 8, DType::fp32), hardware_, both) *
         both.sharing;
}

Seconds MemoryMoves::clear(Bytes bytes) const {
  const Load one = load(bytes);
  return time_of(CallList::memory_call("fill", bytes.value / 4, 4, DType::fp32), hardware_, one) *
         one.sharing;
}

Seconds MemoryMoves::fresh(Bytes bytes) const {
  return hardware_.accelerator() == nullptr ? clear(bytes) : Seconds{};
}

}  // namespace plumbline
