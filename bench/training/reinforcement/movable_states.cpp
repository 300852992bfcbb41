#include "bench/training/reinforcement/movable_states.hpp"

namespace plumbline::reinforcement {

MovableStates::MovableStates(training::RankResources& model, training::HostSide* host)
    : model_(model), host_(host) {
  training::ParameterMemory& memory = model.memory;
  add(memory.values.matrices, parameters_);
  add(memory.secondary, parameters_);
  for (training::ParameterSet* set : {&memory.master, &memory.moment1, &memory.moment2}) {
    add(set->vectors, optimizer_);
    add(set->matrices, optimizer_);
  }
  add(memory.gradients.matrices, gradients_);
}

void MovableStates::add(Tensor& tensor, std::vector<Place>& places) {
  if (!tensor) return;
  const Matrix& all = tensor;
  places.push_back({&tensor, {}, tensor.category(), tensor.holder(), all.elements(), all.dtype});
}

void MovableStates::allocate(const Place& place) {
  *place.device = model_.context.arena.allocate(place.category, place.holder, 1, place.elements, place.type);
}

void MovableStates::load_all(const std::vector<Place>& places) {
  for (const Place& place : places) {
    if (*place.device) continue;
    allocate(place);
    host_->lane.start(place.host, *place.device);
  }
  host_->lane.wait();
}

void MovableStates::store_all(std::vector<Place>& places) {
  for (Place& place : places) {
    if (!*place.device) continue;
    if (!place.host)
      place.host = host_->arena.allocate(place.category, place.holder, 1, place.elements, place.type);
    host_->lane.start(*place.device, place.host);
  }
  host_->lane.wait();
  for (const Place& place : places) place.device->reset();
}

void MovableStates::load_parameters() {
  if (host_ != nullptr) load_all(parameters_);
}

void MovableStates::load_optimizer() {
  if (host_ == nullptr) return;
  load_all(optimizer_);
  for (const Place& place : gradients_) {
    if (*place.device) continue;
    allocate(place);
    model_.context.operators.fill(*place.device, 0);
  }
}

void MovableStates::store_parameters() {
  if (host_ != nullptr) store_all(parameters_);
}

void MovableStates::store_optimizer() {
  if (host_ == nullptr) return;
  store_all(optimizer_);
  for (const Place& place : gradients_) place.device->reset();
}

void MovableStates::free_parameters() {
  if (host_ == nullptr) return;
  for (const Place& place : parameters_) place.device->reset();
}

}  // namespace plumbline::reinforcement
