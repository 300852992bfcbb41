// Processor time of this thread.
#pragma once

#include <ctime>

#include "core/base/units.hpp"

namespace plumbline::training {

inline Seconds processor_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return {static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec)};
}

}  // namespace plumbline::training
