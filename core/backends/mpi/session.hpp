// The life of a process as an MPI rank, and its failures.
#pragma once

#include <functional>

namespace plumbline {

/// MPI_Init … MPI_Finalize. At most one per process; everything that uses MPI must be gone before it is.
class MpiSession {
 public:
  MpiSession(int& argc, char**& argv);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  /// Runs `body` and returns its result. When it throws, prints "[rank 3] what()" to stderr and aborts all
  /// ranks with the error's exit code (3 for std::bad_alloc), so that no peer waits forever.
  int guard(const std::function<int()>& body) const;

 private:
  int rank_ = 0;
  int ranks_ = 1;
};

}  // namespace plumbline
