// Findings of validation.
#pragma once

#include <string>

namespace plumbline {

/// A broken rule and where it was found.
struct Fault {
  int rank = 0;
  int position = 0;  // index into actions[rank]; its size when something is missing at the end
  std::string rule;  // one line
};

}  // namespace plumbline
