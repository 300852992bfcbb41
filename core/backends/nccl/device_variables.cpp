#include "core/backends/nccl/device_variables.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

namespace plumbline {

std::string use_all_queues() {
  const char* const found = std::getenv(kQueuesVariable);
  const std::string before = found == nullptr ? kQueues : found;
  ::setenv(kQueuesVariable, kQueues, 1);
  if (before == kQueues) return "";
  return fmt::format("note: {}: found {}, uses {}; in fewer queues computation waits for messages\n",
                     kQueuesVariable, before, kQueues);
}

}  // namespace plumbline
