#include "core/launch_files/launch_export.hpp"

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/launch_files/megatron_export.hpp"

namespace plumbline {

std::string export_launch(const RunConfig& config, const std::string& framework) {
  if (framework == "megatron-lm") return to_megatron_lm(config);
  throw InputError(fmt::format("--to: found \"{}\", expected megatron-lm", printable(framework)));
}

}  // namespace plumbline
