// Variables by which launchers tell a process its place.
#include "bench/processes/hosts/placement.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <sstream>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"

namespace plumbline {
namespace {

constexpr int kMostRanks = 1 << 24;

/// The variable as a whole number up to `most`; nothing when it is not set. Throws InputError.
std::optional<int> number_in(const Variables& variables, const char* name, int most = kMostRanks) {
  const auto text = variables(name);
  if (!text) return std::nullopt;
  int number = -1;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc{} || end != text->data() + text->size() || number < 0 || number > most) {
    throw InputError(
        fmt::format("{}: found \"{}\", expected a whole number from 0 to {}; unset it or start "
                    "ranks with a launcher that sets it",
                    name, printable(*text), most));
  }
  return number;
}

/// Place given by one launcher, and its variables.
struct Claim {
  Launcher launcher = Launcher::none;
  const char* who = "";
  const char* rank_variable = "";
  const char* size_variable = "";
  int rank = 0;
  int size = kUnknownNumber;
};

std::string words_of_claim(const Claim& claim) {
  if (claim.size == kUnknownNumber)
    return fmt::format("{} says rank {} ({})", claim.who, claim.rank, claim.rank_variable);
  return fmt::format("{} says rank {} of {} ({}, {})", claim.who, claim.rank, claim.size, claim.rank_variable,
                     claim.size_variable);
}

std::optional<Claim> claim_of(const Variables& variables, Launcher launcher, const char* who,
                              const char* rank, const char* size) {
  const auto number = number_in(variables, rank);
  if (!number) return std::nullopt;
  Claim claim{launcher, who, rank, size, *number, kUnknownNumber};
  if (size != nullptr) claim.size = number_in(variables, size).value_or(kUnknownNumber);
  if (claim.size != kUnknownNumber && claim.rank >= claim.size) {
    throw InputError(fmt::format("{}: expected a rank below the size; start ranks with one launcher",
                                 words_of_claim(claim)));
  }
  return claim;
}

/// A task of srun. The batch script of a job has a rank and a size as well, but no step of its own.
std::optional<Claim> claim_of_slurm(const Variables& variables) {
  const auto step = variables("SLURM_STEP_ID");
  const bool numbered = step && !step->empty() && step->find_first_not_of("0123456789") == std::string::npos;
  // 4294967280 and above stand for the batch script, an interactive shell and the like.
  if (!numbered || step->size() >= 10) return std::nullopt;
  const char* size = variables("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  return claim_of(variables, Launcher::slurm, "srun", "SLURM_PROCID", size);
}

/// RANK alone is too common a name.
std::optional<Claim> claim_of_torchrun(const Variables& variables) {
  if (!variables("RANK") || !variables("WORLD_SIZE")) return std::nullopt;
  if (!variables("MASTER_ADDR") && !variables("TORCHELASTIC_RUN_ID")) return std::nullopt;
  return claim_of(variables, Launcher::torchrun, "torchrun", "RANK", "WORLD_SIZE");
}

void require_agreement(const std::optional<Claim>& one, const std::optional<Claim>& other) {
  if (!one || !other) return;
  const bool sizes_known = one->size != kUnknownNumber && other->size != kUnknownNumber;
  if (one->rank == other->rank && (!sizes_known || one->size == other->size)) return;
  throw InputError(
      fmt::format("{}, {}: expected one place; start ranks with one of them, or unset the "
                  "variables of the other",
                  words_of_claim(*one), words_of_claim(*other)));
}

/// If both are known, local ranks are below the host's local size.
void take_local(const Variables& variables, const char* rank, const char* size, Placement& placement) {
  placement.local_rank = number_in(variables, rank).value_or(kUnknownNumber);
  placement.local_size = number_in(variables, size).value_or(kUnknownNumber);
  if (placement.local_size != kUnknownNumber && placement.local_rank >= placement.local_size) {
    throw InputError(fmt::format("{} is {}, but {} is {}: expected a local rank below the local size", rank,
                                 placement.local_rank, size, placement.local_size));
  }
}

/// Ranks of this host among those of srun's step.
void take_slurm(const Variables& variables, Placement& placement) {
  placement.local_rank = number_in(variables, "SLURM_LOCALID").value_or(kUnknownNumber);
  const auto nodes = variables("SLURM_STEP_NODELIST");
  const auto tasks = variables("SLURM_STEP_TASKS_PER_NODE");
  if (!nodes || !tasks) return;
  const std::vector<Host> hosts =
      hosts_of_slurm(*nodes, "SLURM_STEP_NODELIST", *tasks, "SLURM_STEP_TASKS_PER_NODE");
  const int slots = slots_of(hosts);
  if (slots != placement.size) {
    throw InputError(
        fmt::format("SLURM_STEP_TASKS_PER_NODE: found {} tasks in total, expected {} (SLURM_STEP_NUM_TASKS)",
                    slots, placement.size));
  }
  const auto node = number_in(variables, "SLURM_NODEID");
  if (!node) return;
  if (*node >= static_cast<int>(hosts.size())) {
    throw InputError(
        fmt::format("SLURM_NODEID: found {}, expected less than the {} hosts of SLURM_STEP_NODELIST", *node,
                    hosts.size()));
  }
  placement.local_size = hosts[static_cast<std::size_t>(*node)].slots;
}

}  // namespace

Variables process_variables() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  };
}

std::vector<std::string> device_variables() {
  constexpr std::array<std::string_view, 3> kWholeNames = {"LD_LIBRARY_PATH", "PLUMBLINE_GEMM_CHOICE",
                                                           "PLUMBLINE_NCCL_TIMEOUT"};
  std::vector<std::string> names;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('='));
    if (name.starts_with("NCCL_") || name.starts_with("CUDA_") ||
        std::find(kWholeNames.begin(), kWholeNames.end(), name) != kWholeNames.end())
      names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool is_on_path(const std::string& program) {
  std::string path = process_variables()("PATH").value_or("");
  std::replace(path.begin(), path.end(), ':', '\n');
  std::istringstream folders(path);
  for (std::string folder; std::getline(folders, folder);) {
    if (access(folder.append("/").append(program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

std::string_view name_of(Launcher launcher) {
  switch (launcher) {
    case Launcher::none:
      return "nothing";
    case Launcher::open_mpi:
      return "mpirun";
    case Launcher::pmix:
      return "PMIx";
    case Launcher::pmi:
      return "PMI";
    case Launcher::torchrun:
      return "torchrun";
    case Launcher::slurm:
      return "srun";
  }
  return "nothing";
}

Placement find_placement(const Variables& variables) {
  const auto open_mpi =
      claim_of(variables, Launcher::open_mpi, "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  const auto pmix = claim_of(variables, Launcher::pmix, "PMIx", "PMIX_RANK", nullptr);
  const auto pmi = claim_of(variables, Launcher::pmi, "PMI", "PMI_RANK", "PMI_SIZE");
  const auto torchrun = claim_of_torchrun(variables);
  const auto slurm = claim_of_slurm(variables);
  // torchrun's own processes inherit the variables of srun's task that became torchrun.
  const bool in_torchrun = torchrun && variables("TORCHELASTIC_RUN_ID");

  require_agreement(open_mpi, pmix);
  require_agreement(open_mpi, torchrun);
  // mpirun's daemons are tasks of srun: their ranks inherit the daemon's place, not their own.
  if (!open_mpi && !in_torchrun) {
    require_agreement(pmix, slurm);
    require_agreement(pmi, slurm);
    require_agreement(pmix, torchrun);
    require_agreement(pmi, torchrun);
    require_agreement(torchrun, slurm);
  }
  std::optional<Claim> chosen = open_mpi;
  if (!chosen && in_torchrun) chosen = torchrun;
  for (const auto& next : {pmix, pmi, torchrun, slurm}) {
    if (!chosen) chosen = next;
  }
  Placement placement;
  if (!chosen) return placement;
  placement.launcher = chosen->launcher;
  placement.rank = chosen->rank;
  placement.size = chosen->size;
  const bool of_srun = slurm && !open_mpi && !in_torchrun;
  if (placement.size == kUnknownNumber && of_srun) placement.size = slurm->size;
  if (of_srun) take_slurm(variables, placement);
  if (placement.launcher == Launcher::open_mpi) {
    take_local(variables, "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", placement);
  }
  return placement;
}

void require_mpi(const Placement& placement) {
  if (!placement.one_of_several() || placement.speaks_mpi()) return;
  throw InputError(fmt::format(
      "launcher: found task {0} of {1} of {2}, expected a rank of MPI, or one process that starts "
      "its ranks; use mpirun -n {1} plumbline ... or srun --mpi=pmix, or start it without {2}",
      placement.rank, placement.size, name_of(placement.launcher)));
}

std::vector<Host> hosts_of_allocation(const Variables& variables) {
  const auto nodes = variables("SLURM_JOB_NODELIST");
  if (!nodes) return {};
  for (const char* counts : {"SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE"}) {
    if (const auto tasks = variables(counts))
      return hosts_of_slurm(*nodes, "SLURM_JOB_NODELIST", *tasks, counts);
  }
  std::vector<std::string> names = expand_node_list(*nodes, "SLURM_JOB_NODELIST");
  std::vector<Host> hosts;
  hosts.reserve(names.size());
  for (std::string& name : names) hosts.push_back({std::move(name), 1});
  return hosts;
}

bool tells_a_place(std::string_view name) {
  constexpr std::string_view kOfTorchrun[] = {
      "RANK",       "WORLD_SIZE",      "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK",
      "ROLE_RANK",  "ROLE_WORLD_SIZE", "ROLE_NAME",  "GROUP_WORLD_SIZE", "MASTER_ADDR",
      "MASTER_PORT"};
  if (name.starts_with("TORCHELASTIC_") || name.starts_with("PMI_")) return true;
  if (name.starts_with("SLURM_")) return name != "SLURM_CONF";  // where Slurm itself is
  return std::find(std::begin(kOfTorchrun), std::end(kOfTorchrun), name) != std::end(kOfTorchrun);
}

}  // namespace plumbline
