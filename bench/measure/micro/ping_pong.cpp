// Ping-pong between two ranks: through the communicator and through bare MPI, alternating in one run.
//
// Prints one line per message size: half a round trip each way (median of blocks), and the median of their
// ratios.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "bench/processes/launch/launch.hpp"
#include "core/backends/mpi/check.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/backends/mpi/session.hpp"
#include "core/base/statistics.hpp"

namespace plumbline {
namespace {

constexpr int kBlocks = 15;
constexpr double kBlockSeconds = 0.01;

void bare_round_trip(std::vector<std::byte>& buffer, int rank) {
  const int bytes = static_cast<int>(buffer.size());
  const int peer = 1 - rank;
  if (rank == 0) check_mpi(MPI_Send(buffer.data(), bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD), "MPI_Send");
  check_mpi(MPI_Recv(buffer.data(), bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "MPI_Recv");
  if (rank == 1) check_mpi(MPI_Send(buffer.data(), bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD), "MPI_Send");
}

void round_trip(Communicator& communicator, const Matrix& buffer) {
  const int peer = 1 - communicator.rank();
  for (const bool sends : {communicator.rank() == 0, communicator.rank() == 1}) {
    Ticket ticket = sends ? communicator.send(buffer, peer, 0) : communicator.receive(buffer, peer, 0);
    communicator.wait(ticket);
  }
}

/// Microseconds of half a round trip, `repeats` in a row.
template <class RoundTrip>
double time_of(int repeats, RoundTrip go) {
  const Seconds start = monotonic_now();
  for (int i = 0; i < repeats; ++i) go();
  return (monotonic_now() - start).value / repeats / 2 * 1e6;
}

int measure(const MpiSession& session) {
  MpiCommunicator communicator({1, 2, 1});
  const bool speaks = session.rank() == 0;
  if (speaks) {
    fmt::print("waiting: {}\n",
               communicator.crowded() ? "sleeping (more ranks than processors)" : "spinning");
    fmt::print("{:>10}  {:>10}  {:>15}  {:>5}  {:>6}\n", "bytes", "bare MPI us", "communicator us", "ratio",
               "GB/s");
  }
  for (std::int64_t bytes = 4; bytes <= std::int64_t{16} << 20; bytes *= 4) {
    std::vector<std::byte> buffer(static_cast<std::size_t>(bytes));
    const Matrix matrix(buffer.data(), 1, bytes / 4, DType::fp32);
    const auto bare = [&] { bare_round_trip(buffer, session.rank()); };
    const auto ours = [&] { round_trip(communicator, matrix); };
    const double first = std::max(time_of(20, bare), 0.05);
    int repeats = std::clamp(static_cast<int>(kBlockSeconds * 1e6 / first / 2), 10, 20'000);
    communicator.broadcast(Group::world, 0, Matrix(&repeats, 1, 1, DType::int32));
    std::vector<double> bare_us;
    std::vector<double> our_us;
    std::vector<double> ratios;  // of neighbouring blocks: other load of the machine hits both
    for (int block = 0; block < kBlocks; ++block) {
      bare_us.push_back(time_of(repeats, bare));
      our_us.push_back(time_of(repeats, ours));
      ratios.push_back(our_us.back() / bare_us.back());
    }
    if (!speaks) continue;
    const double time = upper_median(our_us);
    fmt::print("{:>10}  {:>11.2f}  {:>15.2f}  {:>5.2f}  {:>6.2f}\n", bytes, upper_median(bare_us), time,
               upper_median(ratios), static_cast<double>(bytes) / time * 1e-3);
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
    spec.ranks = 2;
    spec.on_line = [](const OutputLine& line) { fmt::print("{}\n", line.text); };
    return launch(spec).ok() ? 0 : 4;
  }
  const MpiSession session(argc, argv);
  return session.guard([&] { return measure(session); });
}
