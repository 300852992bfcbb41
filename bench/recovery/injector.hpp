// Injures ranks at random times, as a failure spec says: the same times, kinds and ranks for the same seed.
#pragma once

#include <sys/types.h>

#include <optional>
#include <random>
#include <string>

#include "bench/recovery/failure_spec.hpp"

namespace plumbline {

class Injector {
 public:
  /// `mark`: see process_of_rank.
  Injector(FailureSpec spec, int ranks, std::string mark);

  struct Injury {
    Injected kind;
    int rank;
  };
  /// At time `now`, which starts with the first step: what was done to whom, if it was time and the rank was there. Of times
  /// that passed while none was there nothing comes.
  std::optional<Injury> look(Seconds now);
  /// A rank cannot write.
  bool disk_is_full() const { return full_ != 0; }
  /// The disk has room again.
  void empty_disk();

 private:
  Seconds draw();

  const FailureSpec spec_;
  const int ranks_;
  const std::string mark_;
  std::mt19937_64 random_;
  Seconds next_;
  std::uint64_t injuries_ = 0;
  pid_t full_ = 0;  // process that cannot write
};

}  // namespace plumbline
