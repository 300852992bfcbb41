#include "bench/training/stage/offloaded_layers.hpp"

#include <vector>

namespace plumbline::training {
namespace {

/// Adds the time that it lives to `waited`.
class Waiting {
 public:
  Waiting(const Communicator& clock, Seconds& waited) : clock_(clock), waited_(waited), start_(clock.now()) {}
  ~Waiting() { waited_ += clock_.now() - start_; }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  const Communicator& clock_;
  Seconds& waited_;
  Seconds start_;
};

}  // namespace

void OffloadedLayers::wait() const {
  const Waiting waiting(context_.communicator, host_.waited);
  host_.lane.wait();
}

template <class Visit>
void OffloadedLayers::for_each_kept(std::size_t layer, Frame& frame, const Visit& visit) const {
  const KeptByLayer& kept = kept_[layer];
  for (const int memory : kept.memory) frame.memory[static_cast<std::size_t>(memory)].move_memory(visit);
  if (kept.mixture >= 0) for_each_kept_tensor(frame.mixtures[static_cast<std::size_t>(kept.mixture)], visit);
}

void OffloadedLayers::start_to_host(std::size_t layer, Frame& frame) const {
  const Waiting waiting(context_.communicator, host_.waited);
  frame.on_host.resize(layers_);
  std::vector<Tensor>& copies = frame.on_host[layer];
  for_each_kept(layer, frame, [&](const Tensor& tensor) {
    Tensor& copy = copies.emplace_back();
    if (!tensor) return;
    const Matrix& from = tensor.matrix();
    copy = host_.arena.allocate(Category::activations, "offloaded activations", from.rows, from.cols,
                                from.dtype);
    host_.lane.start(from, copy);
  });
}

void OffloadedLayers::start_from_host(std::size_t layer, Frame& frame) const {
  const Waiting waiting(context_.communicator, host_.waited);
  std::size_t next = 0;
  for_each_kept(layer, frame, [&](Tensor& tensor) {
    const Tensor& copy = frame.on_host[layer][next++];
    if (!copy) return;
    const Matrix& from = copy.matrix();
    tensor = context_.arena.allocate(Category::activations, "activations from the host", from.rows, from.cols,
                                     from.dtype);
    host_.lane.start(from, tensor);
  });
}

void OffloadedLayers::forward_done(std::size_t layer, Frame& frame) const {
  if (layer > layers_) return;
  if (layer > 0) {
    wait();
    for_each_kept(layer - 1, frame, [](Tensor& tensor) { tensor.reset(); });
  }
  if (layer < layers_) start_to_host(layer, frame);
}

void OffloadedLayers::backward_begins(std::size_t layer, Frame& frame) const {
  if (layer < layers_) {
    wait();
    frame.on_host[layer].clear();
  }
  if (layer > 0 && layer <= layers_) start_from_host(layer - 1, frame);
}

}  // namespace plumbline::training
