// The failures of a spec and its seed: time, kind and rank. They do not depend on the run, so that a
// prediction knows them beforehand.
#pragma once

#include <random>

#include "bench/run/recovery/failure_spec.hpp"

namespace plumbline {

struct PlannedFailure {
  Seconds at;  // since the first step began
  Injected kind = Injected::kill;
  int rank = 0;
};

/// Independent and equally likely at any time: exponential gaps of mean `spec.mtbf`. Kinds and ranks are
/// equally likely.
class FailureSequence {
 public:
  FailureSequence(FailureSpec spec, int ranks);
  /// The next one.
  const PlannedFailure& next() const { return next_; }
  void advance();

 private:
  const FailureSpec spec_;
  const int ranks_;
  std::mt19937_64 random_;
  PlannedFailure next_;
};

}  // namespace plumbline
