// The clock that every process of a host reads alike.
#pragma once

#include <ctime>

#include "core/base/units.hpp"

namespace plumbline {

/// CLOCK_MONOTONIC of this host.
inline Seconds monotonic_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return {static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9};
}

}  // namespace plumbline
