// Cost of failures in a run, for people.
#pragma once

#include <string>

#include "bench/record/recovery_report.hpp"

namespace plumbline {

/// Time breakdown, goodput measured and predicted, and a line for every failure.
std::string recovery_text(const RecoveryReport& report);

}  // namespace plumbline
