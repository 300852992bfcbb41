// Other load of a machine while a step runs.
#pragma once

#include <cstdint>

#include "core/base/units.hpp"
#include "core/run/processors.hpp"

namespace plumbline {

/// Counters of this machine and this process since they began. Unreadable ones are NaN. The machine's count
/// in ticks of 1/100 s on most systems.
struct LoadReading {
  Seconds at;                    // CLOCK_MONOTONIC
  Seconds busy;                  // all processors, doing anything
  Seconds stolen;                // processors that the hypervisor gave to other machines
  Seconds own;                   // this process on processors
  Seconds waited;                // this process ready to run without a processor
  std::int64_t involuntary = 0;  // times that this process lost its processor
  double frequency = 0;          // of the processor that this thread is on now, in Hz
  Affinity affinity;             // of this thread
};
LoadReading read_load();

/// Load between two readings on one rank, and frequency and affinity at the later one.
struct RankLoad {
  Seconds wall, busy, stolen, own, waited;
  double involuntary = 0;
  double frequency = 0;
  Affinity affinity = {};
};
RankLoad difference(const LoadReading& later, const LoadReading& earlier);

}  // namespace plumbline
