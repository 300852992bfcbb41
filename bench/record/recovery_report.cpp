#include "bench/record/recovery_report.hpp"

#include <algorithm>

namespace plumbline {

std::int64_t count_failures(const RecoveryReport& report) {
  return std::count_if(report.failures.begin(), report.failures.end(),
                       [](const FailureReport& failure) { return failure.kind != "return"; });
}

}  // namespace plumbline
