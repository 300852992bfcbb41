// The environment as its readers see it: tests have one of their own.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace plumbline {

/// The value of an environment variable; nothing when it is not set or empty.
using Variables = std::function<std::optional<std::string>(const std::string& name)>;

/// This process's own environment.
Variables process_variables();

/// Names in this process's environment that backend cuda and its libraries read, sorted: NCCL_*, CUDA_*,
/// LD_LIBRARY_PATH and plumbline's own for this backend.
std::vector<std::string> device_variables();

/// True if a folder of PATH has that program.
bool is_on_path(const std::string& program);

}  // namespace plumbline
