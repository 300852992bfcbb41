// Rank and job of this process, from whatever launcher started it.
//
// Open MPI's mpirun, PMIx and PMI make ranks that speak MPI. Tasks of Slurm's plain srun and of torchrun know
// their numbers, but not how to reach each other: they are refused.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/processes/hosts/host_list.hpp"
#include "bench/processes/hosts/variables.hpp"

namespace plumbline {

enum class Launcher { none, open_mpi, pmix, pmi, torchrun, slurm };

/// "mpirun", "PMIx", "PMI", "torchrun", "srun"; "nothing" for none.
std::string_view name_of(Launcher launcher);

inline constexpr int kUnknownNumber = -1;

struct Placement {
  Launcher launcher = Launcher::none;
  int rank = 0;
  int size = 1;                     // kUnknownNumber: only MPI knows
  int local_rank = kUnknownNumber;  // among the ranks of this host
  int local_size = kUnknownNumber;

  /// True if MPI_Init makes this process one of several ranks.
  bool speaks_mpi() const {
    return launcher == Launcher::open_mpi || launcher == Launcher::pmix || launcher == Launcher::pmi;
  }
  /// True if others were started together with this process.
  bool one_of_several() const { return speaks_mpi() || size > 1; }
};

/// Throws InputError when a variable is not as its launcher would write it. Also when two launchers
/// contradict each other about the process; the line names both. Sources: mpirun(1) and PMIx' PMIX_RANK;
/// srun(1), "output environment variables"; PyTorch's torchrun page, "environment variables".
Placement find_placement(const Variables& variables);

/// Throws InputError for one of several tasks that cannot speak MPI.
void require_mpi(const Placement& placement);

/// Hosts of the Slurm job of this process (a task or its batch script) with the ranks of each; empty outside.
/// Throws InputError.
std::vector<Host> hosts_of_allocation(const Variables& variables);

/// True if a variable tells a process its place among tasks or its job. mpirun must not see them. It would
/// take hosts from them that the caller does not mean, and its ranks would be told two places.
bool tells_a_place(std::string_view name);

}  // namespace plumbline
