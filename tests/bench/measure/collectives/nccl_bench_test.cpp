// Benchmarks of collectives over NCCL, on a device that is threads.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "bench/measure/collectives/collective_bench.hpp"
#include "kernels/cpu/cpu_operators.hpp"
#include "tests/core/backends/fake_gpu/nccl_rank.hpp"

namespace plumbline::nccl_bench_test {
namespace {

using namespace fake;

/// Waits for the device after every call: operators of the host work on its memory.
class Awaited final : public Communicator {
 public:
  explicit Awaited(NcclCommunicator& inner) : Communicator(inner.layout(), inner.rank()), inner_(inner) {}
  void barrier(Group group) override { inner_.barrier(group); }
  Seconds now() const override { return inner_.now(); }

 private:
  Ticket begin(const Collective& call) override {
    Ticket ticket = inner_.start(call);
    if (call.awaited) settle();
    return ticket;
  }
  Ticket begin(const PointToPoint& message) override { return inner_.start(message); }
  Ticket begin(Follower /*follower*/) override { return {}; }
  void finish(Ticket& ticket) override {
    inner_.wait(ticket);
    settle();
  }
  void copy(const Collective& /*call*/) override {}
  static void settle() { check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }

  NcclCommunicator& inner_;
};

/// Memory of the device.
class DeviceBytes final : public MemorySource {
 public:
  void* allocate(Bytes bytes) override {
    void* data = nullptr;
    check_cuda(cudaMalloc(&data, static_cast<std::size_t>(bytes.value)), "cudaMalloc");
    return data;
  }
  void release(void* data, Bytes /*bytes*/) noexcept override { (void)cudaFree(data); }
};

TEST(NcclBench, ChecksEveryElementOfEveryKind) {
  for (const Group group : {Group::world, Group::pipeline, Group::data}) {
    Layout layout{1, world(), 1};
    if (group == Group::data) layout = {1, 1, world()};
    Rank rank(layout);
    Awaited communicator(rank.nccl);
    const auto operators = make_cpu_operators();
    DeviceBytes memory;
    std::vector<BenchedCall> calls;
    for (const BenchedKind& kind : benched_kinds()) {
      if (!kind.between_pairs || group != Group::data) calls.push_back(kind.call);
    }
    std::set<BenchedCall> measured;
    const BenchRequest request{calls, {64, 4096, 64}, DType::fp32, group, 0.001};
    EXPECT_EQ(bench_collectives(communicator, *operators, memory, request,
                                [&](const CollectiveRow& row) { measured.insert(row.call); }),
              0);
    if (rank.nccl.rank() == 0) {
      EXPECT_EQ(measured.size(), calls.size());
    }
  }
}

}  // namespace
}  // namespace plumbline::nccl_bench_test
