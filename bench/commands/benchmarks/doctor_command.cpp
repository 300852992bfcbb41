// `plumbline doctor`: features of this machine, and the missing parts of others.
#include <fmt/format.h>
#include <unistd.h>
#include <dnnl.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "bench/commands/benchmarks/host_check.hpp"
#include "bench/commands/benchmarks/node_check.hpp"
#include "bench/commands/commands.hpp"
#include "bench/commands/number_range.hpp"
#include "bench/measure/machine/cuda_facts.hpp"
#include "bench/measure/machine/machine_facts.hpp"
#include "bench/processes/hosts/placement.hpp"
#include "bench/processes/launch/launch_environment.hpp"
#include "bench/processes/launch/launch_wire.hpp"
#include "core/base/byte_text.hpp"
#include "core/base/error.hpp"
#include "core/base/output_json.hpp"
#include "core/run/processors.hpp"

namespace plumbline {
namespace {

struct Finding {
  std::string what;
  std::string found;
  bool good = true;
  std::string advice{};  // when not good
};

std::string_view name_of(dnnl::cpu_isa isa) {
  switch (isa) {
    case dnnl::cpu_isa::sse41:
      return "SSE4.1";
    case dnnl::cpu_isa::avx:
      return "AVX";
    case dnnl::cpu_isa::avx2:
      return "AVX2";
    case dnnl::cpu_isa::avx2_vnni:
      return "AVX2 VNNI";
    case dnnl::cpu_isa::avx512_core:
      return "AVX-512";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "AVX-512 VNNI";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "AVX-512 bf16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "AMX";
    default:
      return "baseline";
  }
}

void add_cuda_findings(const CudaFacts& facts, std::vector<Finding>& findings) {
  for (const CudaDevice& device : facts.devices) {
    findings.push_back(
        {"GPU", fmt::format("{}, compute capability {}, {}, {} free", device.name, device.capability,
                            brief_bytes(device.memory), brief_bytes(device.free))});
  }
  if (!facts.problem.empty()) {
    findings.push_back({"GPU", fmt::format("{}: {}{}{}", facts.built ? "none" : "not checked", facts.problem,
                                           facts.remedy.empty() ? "" : "; ", facts.remedy)});
  }
  std::string versions;
  for (const auto& [name, version] : facts.versions) {
    versions += fmt::format("{}{} {}", versions.empty() ? "" : ", ", name, version.empty() ? "-" : version);
  }
  if (!versions.empty()) findings.push_back({"CUDA", versions});
}

/// Launchers: the one that started this process, the hosts of a job, and the means to reach other hosts.
void add_cluster_findings(std::vector<Finding>& findings) {
  try {
    const Placement placement = find_placement(process_variables());
    require_mpi(placement);
    const std::string size = placement.size == kUnknownNumber ? "" : fmt::format(" of {}", placement.size);
    findings.push_back(
        {"launcher", placement.one_of_several()
                         ? fmt::format("{}, as rank {}{}", name_of(placement.launcher), placement.rank, size)
                         : "none: run and matrix start ranks themselves"});
    const std::vector<Host> hosts = hosts_of_allocation(process_variables());
    if (!hosts.empty()) findings.push_back({"Slurm job", printable(host_option(hosts), 200)});
  } catch (const InputError& contradiction) {
    findings.push_back(
        {"launcher", contradiction.what(), false, "start ranks with one launcher that has MPI"});
  }
  const bool sbatch = is_on_path("sbatch");
  findings.push_back(
      {"Slurm", sbatch ? "sbatch found: matrix --launcher slurm" : "no sbatch, no job submission"});
  const auto agent = process_variables()(kLaunchAgentVariable);
  const bool reaches = agent || is_on_path("ssh") || is_on_path("srun");
  findings.push_back({"remote hosts",
                      agent ? fmt::format("by {} ({})", printable(*agent, 200), kLaunchAgentVariable)
                      : is_on_path("ssh") ? "by ssh; within a Slurm job by srun"
                      : reaches           ? "by srun, within a Slurm job"
                                          : "not reachable",
                      reaches, fmt::format("install openssh-client, or set {}", kLaunchAgentVariable)});
}

std::vector<Finding> examine() {
  std::vector<Finding> findings;
  const int processors = available_processors();
  findings.push_back({"processor", fmt::format("{}, {} usable", processor_name(), processors)});
  findings.push_back({"memory", fmt::format("{} total, {} free", brief_bytes(memory_bytes("MemTotal")),
                                            brief_bytes(memory_bytes("MemAvailable")))});
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  const dnnl::version_t* version = dnnl::version();
  findings.push_back(
      {"oneDNN", fmt::format("{}.{}.{}, {}", version->major, version->minor, version->patch, name_of(isa)),
       multiplies_bf16(), kNoBf16Products});
  const std::string mpi = mpi_version();
  findings.push_back({"mpirun", mpi.empty() ? "not found" : mpi, !mpi.empty(), "install openmpi-bin"});
  findings.push_back(
      {"single-copy (CMA)", single_copy_works() ? "allowed" : "refused", single_copy_works(),
       "large messages are copied twice; allow process_vm_readv between processes of one user"});
  std::error_code error;
  const auto space = std::filesystem::space("/dev/shm", error);
  findings.push_back({"shared memory",
                      error
                          ? "no /dev/shm"
                          : fmt::format("{} free", brief_bytes({static_cast<std::int64_t>(space.available)})),
                      !error, "mount a tmpfs on /dev/shm"});
  add_cluster_findings(findings);
  add_cuda_findings(cuda_facts(), findings);
  findings.push_back(
      {"accelerators", fmt::format("presets for hardware: {}", fmt::join(hardware_preset_names(), ", "))});
  return findings;
}

struct DoctorOptions {
  HostCheck hosts;
  NodeCheck nodes;
  bool check_nodes = false;
  bool json = false;
  bool cuda = false;  // plumbline's question to plumbline-cuda
};

void add_check_options(CLI::App& command, DoctorOptions& options) {
  HostCheck& hosts = options.hosts;
  NodeCheck& nodes = options.nodes;
  command.add_flag("--nodes", options.check_nodes,
                   "Measure every node of a job, compare them and name the slow ones");
  command
      .add_option("--hosts", hosts.hostfile,
                  "Hostfile: of --nodes, or measure the groups of --config beside their predictions")
      ->type_name("FILE");
  command
      .add_option("--config", hosts.config,
                  "Configuration with the groups, for --hosts, or the step, for --nodes")
      ->type_name("CONFIG");
  command.add_option("--backend", hosts.backend, "Measured: cpu (MPI) or cuda (NCCL, GPUs)")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command
      .add_option("--hardware", hosts.hardware,
                  "Accelerator or profile that predicts times (default: of the configuration)")
      ->type_name("NAME|FILE");
  command.add_option("--ranks", nodes.ranks, "Ranks of --nodes (default: slots of the hosts, or 2)")
      ->check(number_from(1, 1 << 20))
      ->type_name("N");
  command.add_option("--passing", nodes.passing, "Output hostfile of --nodes: hosts that passed")
      ->type_name("FILE")
      ->capture_default_str();
  command.add_option("--time-limit", nodes.request.limit_s, "Seconds of one look of --nodes")
      ->check(number_from(0.01, 3600.0))
      ->type_name("S")
      ->capture_default_str();
  command.add_flag("--rows", nodes.rows)->group("");
  command.add_option("--slow-rank", nodes.request.slow_rank)->check(number_from(0, 1 << 20))->group("");
  command.add_option("--slow-factor", nodes.request.slow_factor)->check(number_from(1.0, 100.0))->group("");
}

/// Throws InputError for options of a check that was not asked for.
void check_doctor_options(const CLI::App& command, const DoctorOptions& options) {
  const auto refuse = [&](std::initializer_list<const char*> names, const char* expected) {
    for (const char* name : names) {
      if (command.get_option(name)->count() == 0) continue;
      throw InputError(
          fmt::format("{}: found it without {}, expected both; add {}", name, expected, expected));
    }
  };
  const bool hosts = !options.hosts.hostfile.empty();
  if (!options.check_nodes) refuse({"--ranks", "--passing", "--time-limit", "--rows"}, "--nodes");
  if (!options.check_nodes && !hosts) refuse({"--config", "--backend", "--hardware"}, "--hosts or --nodes");
  if (!options.check_nodes && hosts && options.hosts.config.empty())
    throw InputError("--hosts: found it without --config, expected --config or --nodes; add one");
  if (options.check_nodes && options.hosts.config.empty()) refuse({"--hardware"}, "--config");
}

int run_checks(const DoctorOptions& options, bool quiet) {
  if (!options.check_nodes) {
    HostCheck hosts = options.hosts;
    hosts.json = options.json;
    return check_hosts(hosts, quiet);
  }
  NodeCheck nodes = options.nodes;
  nodes.json = options.json;
  nodes.hostfile = options.hosts.hostfile;
  nodes.config = options.hosts.config;
  nodes.hardware = options.hosts.hardware;
  nodes.request.backend = options.hosts.backend == "cuda" ? Backend::cuda : Backend::cpu;
  return check_nodes(nodes, quiet);
}

int show_findings(bool json) {
  const std::vector<Finding> findings = examine();
  if (json) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const Finding& f : findings) {
      all.push_back(
          {{"what", f.what}, {"found", f.found}, {"good", f.good}, {"advice", f.good ? "" : f.advice}});
    }
    fmt::print("{}\n", output_json(all, 2));
    return 0;
  }
  for (const Finding& f : findings) {
    fmt::print("{:<4} {:<22} {}\n", f.good ? "ok" : "!", f.what, f.found);
    if (!f.good) fmt::print("     {:<22} {}\n", "", f.advice);
  }
  return 0;
}

}  // namespace

void add_doctor_command(CLI::App& app, CommandAction& action) {
  CLI::App* command = app.add_subcommand("doctor", "Report what this machine has, or compare a job's nodes");
  const auto options = std::make_shared<DoctorOptions>();
  command->add_flag("--json", options->json, "Print JSON");
  command->add_flag("--cuda", options->cuda)->group("");
  add_check_options(*command, *options);
  command->callback([=, &action, &app] {
    action = [=, &app] {
      check_doctor_options(*command, *options);
      if (options->check_nodes || !options->hosts.hostfile.empty())
        return run_checks(*options, is_quiet(app));
      if (!options->cuda) return show_findings(options->json);
      fmt::print("{}\n", output_json(to_json(cuda_facts()), -1));
      return 0;
    };
  });
}

}  // namespace plumbline
