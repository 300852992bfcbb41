// Start, end and failure of a rank.
#include "core/backends/mpi/session.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>

#include "core/backends/mpi/check.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

[[noreturn]] void abort_all(int rank, const std::string& line, ExitCode code) {
  // One write, so that the lines of several ranks do not mix.
  const std::string text = fmt::format("[rank {}] {}\n", rank, line);
  std::fflush(stdout);
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
  std::_Exit(static_cast<int>(code));
}

/// The system's memory, or the limit that this process was given.
std::string no_memory_left() {
  struct rlimit limit {};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    return fmt::format(
        "address space limit (ulimit -v): found {} KiB, expected more for this rank (std::bad_alloc); raise "
        "it",
        limit.rlim_cur / 1024);
  }
  return "the system has no memory left (std::bad_alloc)";
}

}  // namespace

MpiSession::MpiSession(int& argc, char**& argv) {
  int provided = 0;
  check_mpi(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &ranks_), "MPI_Comm_size");
}

MpiSession::~MpiSession() {
  MPI_Finalize();
}

int MpiSession::guard(const std::function<int()>& body) const {
  try {
    return body();
  } catch (const Error& error) {
    abort_all(rank_, error.what(), error.code());
  } catch (const std::bad_alloc&) {
    abort_all(rank_, no_memory_left(), ExitCode::does_not_fit);
  } catch (const std::exception& error) {
    abort_all(rank_, one_line(error.what()), ExitCode::rank_failed);
  }
}

}  // namespace plumbline
