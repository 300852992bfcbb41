// Data-parallel gradient reduction in buckets, started while the last backward is still running.
#pragma once

#include <vector>

#include "bench/training/context.hpp"

namespace plumbline::training {

/// A step's gradients become final from the end of the flat memory towards its start (the last layer's
/// first). As soon as a bucket's worth is final, its all-reduce over the data group is started (Li et al.
/// 2020, PyTorch DDP, arXiv:2006.15704 §3.2).
class GradientReducer {
 public:
  GradientReducer(Communicator& communicator, Matrix gradients, std::int64_t bucket_elements);

  void start_step();
  /// Everything from element `first` on is final.
  void final_from(std::int64_t first);
  /// Starts what is left and waits for all of it.
  void finish();

 private:
  void start_bucket(std::int64_t first);

  Communicator& communicator_;
  Matrix gradients_;
  std::int64_t bucket_elements_;
  std::int64_t started_from_ = 0;  // elements from here on have been handed over
  std::vector<Ticket> tickets_;
};

}  // namespace plumbline::training
