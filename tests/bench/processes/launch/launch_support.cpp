#include "tests/bench/processes/launch/launch_support.hpp"

#include <fcntl.h>

#include <utility>

namespace plumbline::test {

LaunchSpec fake(std::vector<std::string> arguments, double timeout_s) {
  LaunchSpec spec;
  spec.program = FAKE_RANKS;
  spec.arguments = std::move(arguments);
  spec.ranks = 2;
  spec.timeout = {timeout_s};
  return spec;
}

int become_runner(const char* first, const char* second) {
  const int null = open("/dev/null", O_RDWR);
  dup2(null, 1);
  dup2(null, 2);
  execl(FAKE_RANKS, FAKE_RANKS, "runner", first, second, nullptr);
  return 127;
}

}  // namespace plumbline::test
