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
#include "bench/commands/commands.hpp"
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

}  // namespace

void add_doctor_command(CLI::App& app, CommandAction& action) {
  CLI::App* command =
      app.add_subcommand("doctor", "Report this machine's hardware and software, and what is missing");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print JSON");
  const auto cuda = std::make_shared<bool>(false);
  command->add_flag("--cuda", *cuda)->group("");  // plumbline's question to plumbline-cuda
  const auto check = std::make_shared<HostCheck>();
  CLI::Option* hosts =
      command
          ->add_option("--hosts", check->hostfile,
                       "Hostfile: measure the groups of --config on these hosts, beside their predictions")
          ->type_name("FILE");
  hosts->needs(command->add_option("--config", check->config, "Configuration with the groups, for --hosts")
                   ->needs(hosts)
                   ->type_name("CONFIG"));
  command->add_option("--backend", check->backend, "Messages of --hosts: cpu (MPI) or cuda (NCCL)")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->needs(hosts)
      ->capture_default_str();
  command
      ->add_option(
          "--hardware", check->hardware,
          "Accelerator or profile that predicts the times of --hosts (default: of the configuration)")
      ->needs(hosts)
      ->type_name("NAME|FILE");
  command->callback([&action, &app, json, cuda, check] {
    action = [&app, json, cuda, check] {
      if (!check->hostfile.empty()) {
        check->json = *json;
        return check_hosts(*check, is_quiet(app));
      }
      if (*cuda) {
        fmt::print("{}\n", output_json(to_json(cuda_facts()), -1));
        return 0;
      }
      const std::vector<Finding> findings = examine();
      if (*json) {
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
    };
  });
}

}  // namespace plumbline
