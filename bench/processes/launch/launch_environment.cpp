// Open MPI settings for one machine.
#include "bench/processes/launch/launch_environment.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "bench/processes/hosts/variables.hpp"
#include "bench/processes/launch/launch_wire.hpp"
#include "bench/processes/launch/rank_binding.hpp"
#include "core/base/error.hpp"
#include "core/run/processors.hpp"

namespace plumbline {

namespace {

constexpr Seconds kForDaemons{30};  // that they may take longer than the run: its own end comes first

}  // namespace

namespace {

/// With a core for every rank, each to its own. With more ranks than processors, round robin. Otherwise the
/// scheduler moves ranks that wait for one another all the time, and the same step may take twice as long
/// from run to run. A prediction would not know which ranks share a processor, either.
std::vector<std::string> binding(int ranks_here) {
  if (mask_is_narrow()) return {"--bind-to", "none"};  // ranks bind themselves within the mask
  if (ranks_here <= available_cores()) return {"--bind-to", "core"};
  const bool known = processor_quota() == 0;  // a quota is of any processors
  if (!known || ranks_here <= available_processors()) return {"--bind-to", "none"};
  return {"--map-by", "hwthread", "--bind-to", "hwthread:overload-allowed"};
}

}  // namespace

std::vector<std::string> mpirun_command(int ranks, const std::string& program,
                                        const std::vector<std::string>& arguments, bool bind_ranks,
                                        const std::vector<Host>& hosts) {
  const int ranks_here = hosts.empty() ? ranks : hosts.front().slots;
  std::vector<std::string> command = {"mpirun", "-n", std::to_string(ranks), "--oversubscribe",
                                      "--tag-output"};
  const std::vector<std::string> bound =
      bind_ranks ? binding(ranks_here) : std::vector<std::string>{"--bind-to", "none"};
  command.insert(command.end(), bound.begin(), bound.end());
  if (!hosts.empty()) command.insert(command.end(), {"--host", host_option(hosts)});
  // A shell on another host has an environment of its own; mpirun sends no more than its own variables.
  if (hosts.size() > 1) {
    for (const std::string& name : device_variables()) command.insert(command.end(), {"-x", name});
  }
  command.push_back(program);
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

std::vector<std::pair<std::string, std::string>> mpirun_environment(const std::string& folder, int ranks,
                                                                    int threads_per_rank) {
  std::vector<std::pair<std::string, std::string>> settings = {
      {"OMPI_ALLOW_RUN_AS_ROOT", "1"},  // containers run as root
      {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
      {"TMPDIR", folder},
      // One machine: shared memory, and sockets if that is not to be had. Probing for fabrics takes time.
      {"OMPI_MCA_pml", "ob1"},
      {"OMPI_MCA_btl", "self,vader,tcp"},
      // Containers may forbid memory policies; not worth a message on every start.
      {"OMPI_MCA_hwloc_base_mem_bind_failure_action", "silent"},
      // Its handlers print a backtrace and allocate for it: a rank hit inside malloc would hang instead of
      // ending.
      {"OMPI_MCA_opal_signal", ""},
      // Halves, exchanged and put together again: each of two ranks adds half of a large buffer instead of
      // all of it.
      {"OMPI_MCA_coll_libnbc_iallreduce_algorithm", "3"},
      // Collectives take a buffer of their size from malloc and return it. Pages that the system must clear
      // for each of them would take as long again.
      {"MALLOC_MMAP_THRESHOLD_", "1073741824"},
      {"MALLOC_TRIM_THRESHOLD_", "1073741824"},
      {"OMP_NUM_THREADS", std::to_string(threads_per_rank)},
  };
  if (ranks > available_processors()) settings.emplace_back("OMPI_MCA_mpi_yield_when_idle", "1");
  if (!single_copy_works()) settings.emplace_back("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
  return settings;
}

std::vector<std::pair<std::string, std::string>> agent_environment(const std::string& program,
                                                                   const std::vector<Host>& hosts,
                                                                   Seconds timeout) {
  const Variables variables = process_variables();
  std::string words =
      variables(kLaunchAgentVariable).value_or("ssh -o BatchMode=yes -o ServerAliveInterval=15");
  // Within a job of Slurm its own daemons are there, and ssh often is not.
  if (const auto job = variables("SLURM_JOB_ID"); job && !variables(kLaunchAgentVariable)) {
    words = fmt::format(
        "srun --jobid={} --overlap --nodes=1 --ntasks=1 --mpi=none --quiet --nodelist={{host}}", *job);
  }
  return {
      {kHostsVariable, host_option(hosts)},
      {kLaunchAgentVariable, words},
      {kLimitVariable, std::to_string(static_cast<long long>((timeout + kForDaemons).value * 1e3))},
      {"OMPI_MCA_plm", "rsh"},
      {"OMPI_MCA_plm_rsh_agent", fmt::format("{} {}", program, kAgentArgument)},
      // Every daemon is started from here and stays with its agent: when that ends, so does the daemon.
      {"OMPI_MCA_plm_rsh_no_tree_spawn", "1"},
      {"OMPI_MCA_orte_leave_session_attached", "1"},
  };
}

std::vector<std::pair<std::string, std::string>> local_environment() {
  if (is_on_path("ssh") || is_on_path("rsh")) return {};
  return {{"OMPI_MCA_plm", "isolated"}};
}

Bytes shared_memory_of(int ranks) {
  // Open MPI 4.1: btl_vader_segment_size, 4 MiB per rank, and less than 8 MiB for PMIx and the session
  // folder.
  return kMiB * (8 + 4 * std::int64_t{ranks});
}

void require_open_files(int ranks) {
  // Open MPI 4.1, measured: 34 to 36 for 2 ranks, 49 to 64 for 8.
  const rlim_t needed = 26 + 5 * static_cast<rlim_t>(ranks);
  struct rlimit limit {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  const rlim_t found = limit.rlim_cur;
  limit.rlim_cur = std::min(needed, limit.rlim_max);
  if (limit.rlim_cur == needed && setrlimit(RLIMIT_NOFILE, &limit) == 0) return;
  throw InputError(
      fmt::format("open files limit (ulimit -n): found {2}, expected at least {1} for {0} ranks; raise it",
                  ranks, needed, found));
}

void require_place_of_ranks() {
  // Open MPI 4.1: 4 MiB for a rank's segment, 3 MiB were too little; twice that, for other versions.
  constexpr rlim_t kLargestFile = 8 << 20;
  struct rlimit limit {};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < kLargestFile) {
    const rlim_t found = limit.rlim_cur;
    limit.rlim_cur = std::min(kLargestFile, limit.rlim_max);
    if (limit.rlim_cur < kLargestFile || setrlimit(RLIMIT_FSIZE, &limit) != 0) {
      throw InputError(fmt::format(
          "file size limit (ulimit -f): found {} bytes, expected at least {} for shared memory; raise it",
          found, kLargestFile));
    }
  }
  std::error_code error;
  (void)std::filesystem::current_path(error);
  if (error) {
    throw InputError(fmt::format(
        "current folder: found one that is gone ({}), expected one that exists; change to another with cd",
        error.message()));
  }
}

std::string tight_limits() {
  struct Tight {
    decltype(RLIMIT_NPROC) limit;
    const char* option;
    rlim_t unit;   // of the shell's figure, bytes or one
    rlim_t below;  // in that unit
  };
  // Generous bounds. Too few for two ranks with Open MPI 4.1, as tried: 14 processes, 100,000 KiB, 35 files.
  constexpr Tight kTight[] = {{RLIMIT_NPROC, "-u", 1, 256},
                              {RLIMIT_AS, "-v", 1024, 1 << 20},
                              {RLIMIT_NOFILE, "-n", 1, 64},
                              {RLIMIT_FSIZE, "-f", 1024, 16 << 10}};
  std::vector<std::string> found;
  for (const Tight& tight : kTight) {
    struct rlimit limit {};
    if (getrlimit(tight.limit, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) continue;
    const rlim_t figure = limit.rlim_cur / tight.unit;
    if (figure < tight.below) found.push_back(fmt::format("ulimit {} {}", tight.option, figure));
  }
  return found.empty() ? "" : fmt::format("; tight limits: {}; raise them", fmt::join(found, ", "));
}

bool single_copy_works() {
  // Two siblings, like ranks: a parent may be allowed accesses that a sibling is not (Yama).
  static volatile int value = 4711;
  const pid_t read_from = fork();
  if (read_from == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) pause();
  }
  if (read_from < 0) return false;
  const pid_t reader = fork();
  if (reader == 0) {
    int copy = 0;
    iovec local{&copy, sizeof copy};
    iovec remote{const_cast<int*>(&value), sizeof value};
    const ssize_t got = process_vm_readv(read_from, &local, 1, &remote, 1, 0);
    _exit(got == static_cast<ssize_t>(sizeof copy) && copy == value ? 0 : 1);
  }
  int status = 1;
  if (reader > 0) waitpid(reader, &status, 0);
  kill(read_from, SIGKILL);
  waitpid(read_from, nullptr, 0);
  return status == 0;
}

}  // namespace plumbline
