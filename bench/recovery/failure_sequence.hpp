// The failures that a spec and its seed stand for: when, of which kind, on which rank. They do not depend on the run that
// they hit, so that a prediction knows them beforehand.
#pragma once

#include <random>

#include "bench/recovery/failure_spec.hpp"

namespace plumbline {

struct PlannedFailure {
  Seconds at;  // since the first step began
  Injected kind = Injected::kill;
  int rank = 0;
};

/// Independent and as likely at any time: exponential gaps of mean `spec.mtbf`. Kinds and ranks are as likely each.
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
