// A communicator for a single rank: a run of one process without MPI.
#pragma once

#include <chrono>
#include <cstring>

#include "core/base/error.hpp"
#include "core/run/communicator.hpp"

namespace plumbline {

class SoloCommunicator final : public Communicator {
 public:
  SoloCommunicator() : Communicator({}, 0) {}
  void barrier(Group /*group*/) override {}
  Seconds now() const override {
    return {std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count()};
  }

 private:
  Ticket begin(const Collective& /*call*/) override { return {}; }
  Ticket begin(const PointToPoint& /*message*/) override { return {}; }
  Ticket begin(Follower /*follower*/) override { return {}; }
  void finish(Ticket& ticket) override { ticket = {}; }
  void copy(const Collective& call) override {
    std::memcpy(call.output.data, call.input.data, static_cast<std::size_t>(call.input.bytes().value));
  }
};

}  // namespace plumbline
