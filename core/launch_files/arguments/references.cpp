#include "core/launch_files/arguments/references.hpp"

#include <map>
#include <string>
#include <utility>

namespace plumbline {

void resolve_references(std::vector<LaunchArgument>& arguments) {
  constexpr int kMostReferences = 8;  // one after another
  std::map<std::string, const std::vector<std::string>*> values;
  std::vector<LaunchArgument> resolved = arguments;
  for (const LaunchArgument& each : arguments) values[each.name] = &each.values;
  for (LaunchArgument& each : resolved) {
    for (int i = 0; i < kMostReferences && each.values.size() == 1; ++i) {
      const std::string& value = each.values.front();
      if (!value.starts_with("${") || !value.ends_with('}')) break;
      const auto found = values.find(value.substr(2, value.size() - 3));
      if (found == values.end()) break;
      each.values = std::vector<std::string>(*found->second);
    }
  }
  arguments = std::move(resolved);
}

}  // namespace plumbline
