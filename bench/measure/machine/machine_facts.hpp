// Single facts about this machine, as the operating system and the tools tell them.
#pragma once

#include <string>

#include "core/base/units.hpp"

namespace plumbline {

/// The value after "key :" in a /proc file, or empty.
std::string proc_value(const std::string& file, const std::string& key);
/// A value of /proc/meminfo, such as MemTotal; 0 when the system does not provide it.
Bytes memory_bytes(const std::string& key);
std::string processor_name();
/// True if the processor multiplies bf16 in hardware, as far as oneDNN may use it (ONEDNN_MAX_CPU_ISA).
bool multiplies_bf16();
/// To be said where it does not.
inline constexpr const char* kNoBf16Products =
    "bf16 products run through fp32 here: correct, but no faster; use precision: fp32";
inline constexpr const char* kFp16Products =
    "fp16 products run through fp32 on a CPU: correct, but no faster; use precision: bf16 or fp32";
/// "name, memory" of the first GPU, or empty.
std::string gpu_name();
/// "Open MPI v4.1.4": the library this program is linked with.
std::string mpi_library_version();
/// First line of `mpirun --version`, or empty when there is none.
std::string mpi_version();

}  // namespace plumbline
