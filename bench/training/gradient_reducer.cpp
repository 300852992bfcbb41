#include "bench/training/gradient_reducer.hpp"

namespace plumbline::training {

GradientReducer::GradientReducer(Communicator& communicator, Matrix gradients, std::int64_t bucket_elements)
    : communicator_(communicator), gradients_(gradients), bucket_elements_(bucket_elements) {}

void GradientReducer::start_step() {
  started_from_ = gradients_.elements();
  tickets_.clear();
}

void GradientReducer::final_from(std::int64_t first) {
  if (started_from_ - first >= bucket_elements_) start_bucket(first);
  communicator_.progress();
}

void GradientReducer::finish() {
  start_bucket(0);
  for (Ticket& ticket : tickets_) communicator_.wait(ticket);
  tickets_.clear();
}

void GradientReducer::start_bucket(std::int64_t first) {
  if (communicator_.layout().data > 1 && first < started_from_) {
    const Matrix bucket = gradients_.columns(first, started_from_ - first);
    tickets_.push_back(communicator_.start_all_reduce(
        Group::data, Matrix(bucket.data, 1, bucket.cols, bucket.dtype), ReduceOp::sum));
  }
  started_from_ = first;
}

}  // namespace plumbline::training
