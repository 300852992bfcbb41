#include "bench/measure/machine/machine.hpp"

#include <fmt/format.h>
#include <unistd.h>
#include <dnnl.hpp>

#include <algorithm>
#include <string_view>

#include "bench/measure/machine/machine_facts.hpp"
#include "bench/measure/machine/recorded_variables.hpp"
#include "bench/measure/machine/version.hpp"

namespace plumbline {

MachineReport this_machine() {
  MachineReport machine;
  char host[256] = {};
  if (::gethostname(host, sizeof host - 1) == 0) machine.host = host;
  machine.cpu = processor_name();
  machine.gpu = gpu_name();
  const dnnl_version_t* onednn = dnnl::version();
  machine.versions = {{"plumbline", plumbline_version()},
                      {"compiler", __VERSION__},
                      {"onednn", fmt::format("{}.{}.{}", onednn->major, onednn->minor, onednn->patch)},
                      {"mpi", mpi_library_version()}};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || !is_recorded_variable(text.substr(0, equals))) continue;
    machine.environment.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  std::sort(machine.environment.begin(), machine.environment.end());
  return machine;
}

}  // namespace plumbline
