// Hosts from options and surroundings.
#include "bench/processes/hosts/chosen_hosts.hpp"

#include <cstddef>

#include "bench/processes/hosts/placement.hpp"
#include "core/base/error.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kLargestHostfile = std::size_t{1} << 20;

}  // namespace

std::vector<Host> chosen_hosts(const LauncherOptions& options, const Variables& variables) {
  if (options.launcher == "local" && !options.hostfile.empty()) {
    throw InputError(
        "--launcher local and --hostfile: found both, expected ranks on this host or on those of the file");
  }
  if (!options.hostfile.empty()) {
    return parse_hostfile(read_text_file(options.hostfile, kLargestHostfile), options.hostfile);
  }
  if (options.launcher != "mpirun") return {};
  std::vector<Host> hosts = hosts_of_allocation(variables);
  if (hosts.empty()) {
    throw InputError(
        "--launcher mpirun: found neither --hostfile nor a job of Slurm (SLURM_JOB_NODELIST), expected one "
        "of them");
  }
  return hosts;
}

}  // namespace plumbline
