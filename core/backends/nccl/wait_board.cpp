#include "core/backends/nccl/wait_board.hpp"

#include <algorithm>
#include <ctime>
#include <exception>
#include <new>

#include "core/backends/mpi/check.hpp"

namespace plumbline {
namespace {

std::int64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

WaitBoard::WaitBoard(MPI_Comm world) {
  int world_rank = 0;
  int world_size = 0;
  check_mpi(MPI_Comm_rank(world, &world_rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(world, &world_size), "MPI_Comm_size");
  check_mpi(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, world_rank, MPI_INFO_NULL, &host_),
            "MPI_Comm_split_type");
  void* memory = nullptr;
  check_mpi(MPI_Win_allocate_shared(sizeof(BoardEntry), 1, MPI_INFO_NULL, host_, &memory, &window_),
            "MPI_Win_allocate_shared");
  mine_ = new (memory) BoardEntry();
  beat();
  alive();
  int host_size = 0;
  check_mpi(MPI_Comm_size(host_, &host_size), "MPI_Comm_size");
  std::vector<int> world_ranks(static_cast<std::size_t>(host_size));
  check_mpi(MPI_Allgather(&world_rank, 1, MPI_INT, world_ranks.data(), 1, MPI_INT, host_), "MPI_Allgather");
  entries_.assign(static_cast<std::size_t>(world_size), nullptr);
  for (int local = 0; local < host_size; ++local) {
    MPI_Aint bytes = 0;
    int unit = 0;
    void* theirs = nullptr;
    check_mpi(MPI_Win_shared_query(window_, local, &bytes, &unit, &theirs), "MPI_Win_shared_query");
    entries_[static_cast<std::size_t>(world_ranks[static_cast<std::size_t>(local)])] =
        static_cast<const BoardEntry*>(theirs);
  }
  // Nobody reads an entry before its owner has constructed it.
  check_mpi(MPI_Barrier(host_), "MPI_Barrier");
}

WaitBoard::~WaitBoard() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  // Freeing is collective: a rank that leaves because of an error would wait for those that do not.
  if (finalized != 0 || std::uncaught_exceptions() > 0) return;
  MPI_Win_free(&window_);
  MPI_Comm_free(&host_);
}

const BoardEntry* WaitBoard::of(int world_rank) const {
  return entries_[static_cast<std::size_t>(world_rank)];
}

void WaitBoard::set_action(std::string_view action) {
  const std::size_t length = std::min(action.size(), mine_->action.size() - 1);
  for (std::size_t i = 0; i < mine_->action.size(); ++i) {
    mine_->action[i].store(i < length ? action[i] : '\0', std::memory_order_relaxed);
  }
  beat();
}

void WaitBoard::beat() {
  mine_->heartbeat_ns.store(monotonic_ns(), std::memory_order_relaxed);
}

void WaitBoard::alive() {
  mine_->alive_ns.store(monotonic_ns(), std::memory_order_relaxed);
}

std::string action_of(const BoardEntry& entry) {
  std::string text;
  for (const std::atomic<char>& letter : entry.action) {
    const char c = letter.load(std::memory_order_relaxed);
    if (c == '\0') break;
    text += c;
  }
  return text;
}

}  // namespace plumbline
