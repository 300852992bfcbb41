// State of every rank of this host, in memory that all of them can read at any time. It has the rank's
// position, and the number of operations put into each of its communicators.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/backends/mpi/mpi_header.hpp"

namespace plumbline {

/// Communicators of one rank that the board can count: the groups and its message channels.
constexpr int kBoardLanes = 64;

/// One rank's lines. Plain atomics: written by one process, read by the others.
struct BoardEntry {
  std::atomic<std::int64_t> heartbeat_ns{0};  // CLOCK_MONOTONIC when it last did anything
  std::atomic<std::int64_t> alive_ns{0};      // when its watchdog last ran: stops with the process
  /// Identity of the lane's communicator (same number on all members), 0 = not in use; and operations that
  /// the rank has started in it.
  std::array<std::atomic<std::uint64_t>, kBoardLanes> lane{};
  std::array<std::atomic<std::uint64_t>, kBoardLanes> started{};
  /// The action it is in ("1F3"); a reader may see one action's name over another's, never past the end.
  std::array<std::atomic<char>, 32> action{};
};

/// The entries of all ranks of this host in an MPI shared window. The window's memory is read without MPI
/// calls, so that a watchdog thread may do it while the main thread is in MPI.
class WaitBoard {
 public:
  /// Collective over `world`.
  explicit WaitBoard(MPI_Comm world);
  ~WaitBoard();
  WaitBoard(const WaitBoard&) = delete;
  WaitBoard& operator=(const WaitBoard&) = delete;

  BoardEntry& mine() { return *mine_; }
  /// A world rank's entry, or nullptr when it is on another host.
  const BoardEntry* of(int world_rank) const;

  void set_action(std::string_view action);
  void beat();
  void alive();

 private:
  MPI_Win window_ = MPI_WIN_NULL;
  MPI_Comm host_ = MPI_COMM_NULL;
  BoardEntry* mine_ = nullptr;
  std::vector<const BoardEntry*> entries_;  // by world rank
};

/// The action a rank is in, or "" for none.
std::string action_of(const BoardEntry& entry);

}  // namespace plumbline
