#include "bench/measure/calibrate/followers.hpp"

#include <chrono>
#include <cmath>
#include <memory>
#include <thread>

#include "bench/measure/calibrate/cell_timer.hpp"
#include "core/backends/mpi/check.hpp"
#include "core/backends/mpi/clock.hpp"
#include "core/backends/mpi/mpi_header.hpp"
#include "core/base/statistics.hpp"
#include "core/run/machine_load.hpp"
#include "kernels/cpu/cpu_operators.hpp"

namespace plumbline::calibration {
namespace {

constexpr int kTag = 1;
constexpr int kStop = -1;
constexpr int kHome = -2;
constexpr int kMessage = -3;    // rank 1 echoes
constexpr int kProcessor = -4;  // all report their processor time
constexpr int kRoundTrips = 200;
constexpr int kMessageBytes = 4096;
constexpr auto kNap = std::chrono::microseconds(200);

/// True if a message of rank 0 has arrived.
bool called() {
  int there = 0;
  check_mpi(MPI_Iprobe(0, kTag, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE), "MPI_Iprobe");
  return there != 0;
}

int next_command() {
  // Waiting in MPI_Recv would keep the processor busy.
  while (!called()) std::this_thread::sleep_for(kNap);
  int command = 0;
  check_mpi(MPI_Recv(&command, 1, MPI_INT, 0, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "MPI_Recv");
  return command;
}

void answer() {
  const int done = 0;
  check_mpi(MPI_Send(&done, 1, MPI_INT, 0, kTag, MPI_COMM_WORLD), "MPI_Send");
}

/// As many as round trips, with rank 0 or 1.
std::vector<double> exchange(int peer, bool first) {
  std::vector<char> buffer(kMessageBytes);
  std::vector<double> seconds;
  const auto send = [&] {
    check_mpi(MPI_Send(buffer.data(), kMessageBytes, MPI_CHAR, peer, kTag + 1, MPI_COMM_WORLD), "MPI_Send");
  };
  const auto receive = [&] {
    check_mpi(
        MPI_Recv(buffer.data(), kMessageBytes, MPI_CHAR, peer, kTag + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
        "MPI_Recv");
  };
  for (int i = 0; i < kRoundTrips; ++i) {
    const double start = monotonic_now().value;
    if (first) send();
    receive();
    if (!first) send();
    seconds.push_back(monotonic_now().value - start);
  }
  return seconds;
}

}  // namespace

Followers::Followers() {
  int world = 1;
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &world), "MPI_Comm_size");
  count_ = world - 1;
}

Followers::~Followers() {
  for (int rank = 1; rank <= count_; ++rank) {
    const int home = kHome;
    MPI_Send(&home, 1, MPI_INT, rank, kTag, MPI_COMM_WORLD);
  }
}

void Followers::tell(int command) {
  for (int rank = 1; rank <= count_; ++rank)
    check_mpi(MPI_Send(&command, 1, MPI_INT, rank, kTag, MPI_COMM_WORLD), "MPI_Send");
}

void Followers::hear() {
  for (int rank = 1; rank <= count_; ++rank) {
    int done = 0;
    check_mpi(MPI_Recv(&done, 1, MPI_INT, rank, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "MPI_Recv");
  }
}

void Followers::announce(int cell) {
  tell(cell);
}

void Followers::start() {
  hear();
}

void Followers::stop() {
  tell(kStop);
  hear();
}

double Followers::message_seconds() {
  if (count_ == 0) return std::nan("");
  const int message = kMessage;
  check_mpi(MPI_Send(&message, 1, MPI_INT, 1, kTag, MPI_COMM_WORLD), "MPI_Send");
  return median(exchange(1, true)) / 2;
}

double Followers::processor_seconds() {
  double sum = 0;
  tell(kProcessor);
  for (int rank = 1; rank <= count_; ++rank) {
    double own = 0;
    check_mpi(MPI_Recv(&own, 1, MPI_DOUBLE, rank, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "MPI_Recv");
    sum += own;
  }
  return sum;
}

void follow(const std::vector<Cell>& cells) {
  const std::unique_ptr<Operators> operators = make_cpu_operators();
  Pools pools;
  CellTimer timer(*operators, pools);
  for (int command = next_command(); command != kHome; command = next_command()) {
    if (command == kMessage) {
      exchange(0, false);
      continue;
    }
    if (command == kProcessor) {
      const double own = read_load().own.value;
      check_mpi(MPI_Send(&own, 1, MPI_DOUBLE, 0, kTag, MPI_COMM_WORLD), "MPI_Send");
      continue;
    }
    if (command != kStop) timer.begin(cells[static_cast<std::size_t>(command)], 0);
    answer();
    if (command == kStop) continue;
    while (!called()) timer.call();
  }
}

}  // namespace plumbline::calibration
