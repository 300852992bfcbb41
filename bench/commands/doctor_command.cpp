// `plumbline doctor`: what this machine has, and what is missing for which feature.
#include <fmt/format.h>
#include <unistd.h>
#include <dnnl.hpp>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "bench/commands/commands.hpp"
#include "bench/launch/launch_environment.hpp"
#include "bench/machine/cuda_facts.hpp"
#include "bench/machine/machine_facts.hpp"
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
        {"GPU", fmt::format("{}, compute capability {}, {} MiB, {} MiB free", device.name, device.capability,
                            device.memory.value >> 20, device.free.value >> 20)});
  }
  if (!facts.problem.empty()) findings.push_back({"GPU", fmt::format("none: {}", facts.problem)});
  std::string versions;
  for (const auto& [name, version] : facts.versions) {
    versions += fmt::format("{}{} {}", versions.empty() ? "" : ", ", name, version.empty() ? "-" : version);
  }
  if (!versions.empty()) findings.push_back({"CUDA", versions});
}

std::vector<Finding> examine() {
  std::vector<Finding> findings;
  const int processors = available_processors();
  findings.push_back({"processor", fmt::format("{}, {} usable", processor_name(), processors)});
  findings.push_back({"memory", fmt::format("{} in all, {} free", proc_value("/proc/meminfo", "MemTotal"),
                                            proc_value("/proc/meminfo", "MemAvailable"))});
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  const bool fast_bf16 = isa == dnnl::cpu_isa::avx512_core_amx || isa == dnnl::cpu_isa::avx512_core_bf16;
  const dnnl::version_t* version = dnnl::version();
  findings.push_back(
      {"oneDNN", fmt::format("{}.{}.{}, {}", version->major, version->minor, version->patch, name_of(isa)),
       fast_bf16, "bf16 products run through fp32 here: correct, but slow; use precision: fp32"});
  const std::string mpi = mpi_version();
  findings.push_back({"mpirun", mpi.empty() ? "not found" : mpi, !mpi.empty(), "install openmpi-bin"});
  findings.push_back(
      {"single-copy messages", single_copy_works() ? "allowed" : "refused", single_copy_works(),
       "large messages are copied twice; allow process_vm_readv between processes of one user"});
  std::error_code error;
  const auto space = std::filesystem::space("/dev/shm", error);
  findings.push_back({"shared memory",
                      error ? "no /dev/shm" : fmt::format("{} MiB free", space.available >> 20), !error,
                      "mount a tmpfs on /dev/shm"});
  add_cuda_findings(cuda_facts(), findings);
  findings.push_back(
      {"accelerators", fmt::format("known to hardware: {}", fmt::join(hardware_preset_names(), ", "))});
  return findings;
}

}  // namespace

void add_doctor_command(CLI::App& app, CommandAction& action) {
  CLI::App* command = app.add_subcommand("doctor", "Say what this machine has and what is missing");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print JSON");
  const auto cuda = std::make_shared<bool>(false);
  command->add_flag("--cuda", *cuda)->group("");  // what plumbline asks plumbline-cuda
  command->callback([&action, json, cuda] {
    action = [json, cuda] {
      if (*cuda) {
        fmt::print("{}\n", to_json(cuda_facts()).dump());
        return 0;
      }
      const std::vector<Finding> findings = examine();
      if (*json) {
        nlohmann::ordered_json all = nlohmann::ordered_json::array();
        for (const Finding& f : findings) {
          all.push_back(
              {{"what", f.what}, {"found", f.found}, {"good", f.good}, {"advice", f.good ? "" : f.advice}});
        }
        fmt::print("{}\n", all.dump(2));
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
