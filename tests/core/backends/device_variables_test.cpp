// Variables of CUDA's environment that a run does not leave to its user.
#include "core/backends/nccl/device_variables.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace plumbline::device_variables_test {
namespace {

TEST(DeviceVariables, AllQueuesAreUsedWhateverTheEnvironmentSays) {
  for (const char* found : {"", "1", "8", "32"}) {
    SCOPED_TRACE(found);
    const bool set = *found != '\0';
    if (set) {
      ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", found, 1);
    } else {
      ::unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
    }
    const std::string note = use_all_queues();
    EXPECT_STREQ(std::getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "32");
    const bool other = set && std::string(found) != "32";
    EXPECT_EQ(note.empty(), !other);
    EXPECT_EQ(note.find(std::string("found ") + found) != std::string::npos, other) << note;
  }
}

}  // namespace
}  // namespace plumbline::device_variables_test
