// A communicator for one rank that talks to nobody: a run of one process without MPI.
#pragma once

#include <chrono>
#include <cstring>

#include "core/base/error.hpp"
#include "core/run/communicator.hpp"

namespace plumbline {

class SoloCommunicator final : public Communicator {
 public:
  const Layout& layout() const override { return layout_; }
  int rank() const override { return 0; }
  void all_reduce(Group, Matrix, ReduceOp) override {}
  Ticket start_all_reduce(Group, Matrix, ReduceOp) override { return {}; }
  void all_gather(Group, Matrix input, Matrix output) override { copy(input, output); }
  Ticket start_all_gather(Group, Matrix input, Matrix output) override { return copy(input, output); }
  void reduce_scatter(Group, Matrix input, Matrix output) override { copy(input, output); }
  Ticket start_reduce_scatter(Group, Matrix input, Matrix output) override { return copy(input, output); }
  void broadcast(Group, int, Matrix) override {}
  Ticket start_broadcast(Group, int, Matrix) override { return {}; }
  Ticket start_all_reduce_after(Ticket, std::function<void()> prepare, Group, Matrix, ReduceOp) override {
    prepare();
    return {};
  }
  void barrier(Group) override {}
  Ticket send(Matrix, int, int) override { throw Error("a single rank has nobody to send to"); }
  Ticket receive(Matrix, int, int) override { throw Error("a single rank has nobody to receive from"); }
  void wait(Ticket& ticket) override { ticket = {}; }
  void progress() override {}
  Seconds now() const override {
    return {std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count()};
  }
  Seconds clock_error() const override { return {}; }
  const Traffic& traffic() const override { return traffic_; }

 private:
  static Ticket copy(const Matrix& input, const Matrix& output) {
    if (output.data != input.data) {
      std::memcpy(output.data, input.data, static_cast<std::size_t>(input.bytes().value));
    }
    return {};
  }
  Layout layout_;
  Traffic traffic_;
};

}  // namespace plumbline
