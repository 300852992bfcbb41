#include "analysis/hardware/profiles/constant_source.hpp"

#include "analysis/hardware/embedded.hpp"
#include "core/base/json_keys.hpp"

namespace plumbline {
namespace {

const Json& described_software() {
  static const Json kSoftware =
      parse_json_object(embedded_text(analysis_files(), "software.json"), "software.json").at("software");
  return kSoftware;
}

}  // namespace

std::string source_of_software_constant(std::string_view software, std::string_view constant) {
  const Json& all = described_software();
  std::string name(software);
  while (all.contains(name)) {
    const Json& entry = all.at(name);
    const Json& constants = entry.at("constants");
    if (const auto found = constants.find(constant); found != constants.end()) return found->at("source");
    if (!entry.contains("like")) break;
    name = entry.at("like");
  }
  return "";
}

}  // namespace plumbline
