#include "bench/measure/machine/machine_facts.hpp"

#include <unistd.h>
#include <dnnl.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "core/backends/mpi/mpi_header.hpp"

namespace plumbline {
namespace {

/// First line that a fixed shell command prints, or empty.
std::string first_line(const char* command) {
  std::string line;
  if (FILE* pipe = ::popen(command, "r")) {  // NOLINT: never user input
    char buffer[256];
    if (std::fgets(buffer, sizeof buffer, pipe) != nullptr) line = buffer;
    ::pclose(pipe);
  }
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
  return line;
}

}  // namespace

std::string proc_value(const std::string& file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::size_t first = line.find_first_not_of(" \t", colon + 1);
    return first == std::string::npos ? "" : line.substr(first);
  }
  return "";
}

Bytes memory_bytes(const std::string& key) {
  constexpr std::int64_t kUnit = 1024;  // "16265360 kB", which are KiB
  return {kUnit * std::strtoll(proc_value("/proc/meminfo", key).c_str(), nullptr, 10)};
}

std::string processor_name() {
  return proc_value("/proc/cpuinfo", "model name");
}

bool multiplies_bf16() {
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  return isa == dnnl::cpu_isa::avx512_core_amx || isa == dnnl::cpu_isa::avx512_core_bf16;
}

std::string gpu_name() {
  // Without the driver's device there is nothing to ask for, and asking takes longer than a prediction.
  if (::access("/dev/nvidiactl", F_OK) != 0) return "";
  return first_line("nvidia-smi --query-gpu=name,memory.total --format=csv,noheader 2>/dev/null");
}

std::string mpi_library_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) return "";  // allowed before MPI_Init
  const std::string version = text;
  return version.substr(0, version.find(','));
}

std::string mpi_version() {
  return first_line("mpirun --version 2>/dev/null");
}

}  // namespace plumbline
