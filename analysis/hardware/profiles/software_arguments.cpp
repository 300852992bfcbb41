#include "analysis/hardware/profiles/software_arguments.hpp"

#include <algorithm>
#include <map>

#include "analysis/hardware/embedded.hpp"
#include "analysis/hardware/profiles/profile_field.hpp"
#include "core/base/json_keys.hpp"

namespace plumbline {
namespace {

constexpr ProfileField<SoftwareArguments> kArguments[] = {
    {"even_stages", &SoftwareArguments::even_stages},
    {"stage_layouts", &SoftwareArguments::stage_layouts},
    {"sized_stages", &SoftwareArguments::sized_stages},
    {"pipeline", &SoftwareArguments::pipeline},
    {"experts", &SoftwareArguments::experts},
    {"any_expert_tensor", &SoftwareArguments::any_expert_tensor},
    {"most_zero", &SoftwareArguments::most_zero},
    {"most_zero_pipelined", &SoftwareArguments::most_zero_pipelined},
    {"sequence_parallel", &SoftwareArguments::sequence_parallel},
    {"always_sequence_parallel", &SoftwareArguments::always_sequence_parallel},
    {"recompute_groups", &SoftwareArguments::recompute_groups},
    {"recompute_selective", &SoftwareArguments::recompute_selective},
    {"bf16_gradients", &SoftwareArguments::bf16_gradients},
    {"pads_vocabulary", &SoftwareArguments::pads_vocabulary},
};

void set_argument(SoftwareArguments& arguments, std::string_view name, const JsonKeys& entry) {
  if (entry.string("source").empty()) entry.refuse("source", "a text that is not empty");
  if (name == "cp_comm_types") {
    const std::vector<std::string> all = SoftwareArguments().cp_comm_types;
    arguments.cp_comm_types = entry.strings("value", all.size());
    for (const std::string& type : arguments.cp_comm_types) {
      if (std::ranges::find(all, type) == all.end()) entry.refuse("value", "names of cp_comm_type");
    }
  } else if (!set_field(kArguments, arguments, name, entry)) {
    entry.fail("", "expected a known argument");
  }
}

using ByName = std::map<std::string, SoftwareArguments, std::less<>>;

ByName built_in_arguments() {
  const Json root = parse_json_object(embedded_text(analysis_files(), "software.json"), "software.json");
  const auto software = JsonKeys(root, "software.json", JsonNull::refused).members("software");
  ByName known;
  // `like` names a software before or after; profiles.cpp refuses a cycle.
  while (known.size() < software.size()) {
    for (const auto& [name, entry] : software) {
      const bool based = entry.find("like") != nullptr;
      const auto base = known.find(based ? entry.string("like") : name);
      if (known.contains(name) || (based && base == known.end())) continue;
      SoftwareArguments arguments = based ? base->second : SoftwareArguments();
      if (entry.find("arguments") != nullptr)
        for (const auto& [key, value] : entry.members("arguments")) set_argument(arguments, key, value);
      known.emplace(name, arguments);
    }
  }
  return known;
}

}  // namespace

const SoftwareArguments& software_arguments(std::string_view software) {
  static const ByName kKnown = built_in_arguments();
  static const SoftwareArguments kDefaults;
  const auto known = kKnown.find(software);
  return known == kKnown.end() ? kDefaults : known->second;
}

}  // namespace plumbline
