// Cost of waiting when more ranks run than there are processors: busy ranks next to waiting ones.
//
// Twice as many ranks as processors. In every round half of them work for a while and then send to their
// partner, who waits for it; then the other way round. Were waiting free, a round would take two works.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/processes/launch/launch.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/backends/mpi/session.hpp"
#include "core/run/processors.hpp"

namespace plumbline {
namespace {

constexpr int kRounds = 60;
constexpr double kWorkSeconds = 0.002;

/// Does a fixed amount of arithmetic.
double work(std::int64_t amount) {
  double x = 1;
  for (std::int64_t i = 0; i < amount; ++i) x = x * 1.000000001 + 1e-9;
  return x;
}

double rounds_with(bool crowded, bool reduce, std::int64_t amount, const Layout& layout) {
  MpiCommunicator communicator(layout, {.crowded = crowded});
  const int rank = communicator.rank();
  std::vector<float> payload(4096);
  const Matrix buffer(payload.data(), 1, 4096, DType::fp32);
  volatile double sink = 0;
  communicator.barrier(Group::world);
  const Seconds start = communicator.now();
  for (int round = 0; round < kRounds; ++round) {
    if (reduce) {
      sink = sink + work(amount);
      communicator.all_reduce(Group::world, buffer, ReduceOp::sum);
      continue;
    }
    for (int turn = 0; turn < 2; ++turn) {
      const bool works = rank % 2 == turn;
      if (works) sink = sink + work(amount);
      Ticket ticket =
          works ? communicator.send(buffer, rank ^ 1, 0) : communicator.receive(buffer, rank ^ 1, 0);
      communicator.wait(ticket);
    }
  }
  communicator.barrier(Group::world);
  return (communicator.now() - start).value / kRounds;
}

int measure(const MpiSession& session) {
  const Layout layout{session.ranks(), 1, 1};
  // Only rank 0 works while it finds out how much work takes how long.
  int amount = 1;
  {
    MpiCommunicator communicator(layout, {.crowded = true});
    if (session.rank() == 0) {
      const Seconds start = communicator.now();
      volatile double sink = work(1'000'000);
      (void)sink;
      amount = static_cast<int>(kWorkSeconds / (communicator.now() - start).value * 1e6);
    }
    communicator.broadcast(Group::world, 0, Matrix(&amount, 1, 1, DType::int32));
  }
  if (session.rank() == 0) {
    fmt::print("{} ranks, {} works at a time, work {:.1f} ms\n", session.ranks(), session.ranks() / 2,
               kWorkSeconds * 1e3);
    fmt::print("{:>22}  {:>8}  {:>12}  {:>5}\n", "round", "waiting", "ms per round", "ideal");
  }
  for (const bool reduce : {false, true}) {
    for (const bool crowded : {true, false}) {
      const double seconds = rounds_with(crowded, reduce, amount, layout);
      if (session.rank() != 0) continue;
      fmt::print("{:>22}  {:>8}  {:>12.2f}  {:>5.2f}\n",
                 reduce ? "all work, all-reduce" : "half work, then send", crowded ? "sleeping" : "spinning",
                 seconds * 1e3, 2 * kWorkSeconds * 1e3);
    }
  }
  return 0;
}

}  // namespace
}  // namespace plumbline

int main(int argc, char** argv) {
  using namespace plumbline;
  if (const auto code = launch_entry(argc, argv)) return *code;
  if (already_launched_by() == nullptr) {
    LaunchSpec spec;
    spec.program = self_path();
    spec.ranks = 2 * available_processors();
    spec.on_line = [](const OutputLine& line) { fmt::print("{}\n", line.text); };
    return launch(spec).ok() ? 0 : 4;
  }
  const MpiSession session(argc, argv);
  return session.guard([&] { return measure(session); });
}
