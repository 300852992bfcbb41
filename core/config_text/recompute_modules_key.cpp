#include "core/config_text/recompute_modules_key.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/config_text/config_key_kinds.hpp"

namespace plumbline {

ConfigKey recompute_modules_key() {
  const char* const name = "recompute_modules";
  std::string expected = "some of ";
  for (const RecomputeModuleName& module : kRecomputeModules)
    expected += fmt::format("{}{}", &module == std::begin(kRecomputeModules) ? "" : ",", module.name);
  return {name, "", expected,
          [=](ConfigDraft& draft, const ConfigText& value) {
            RecomputeModules modules;
            std::string_view text = value.text;
            for (bool more = true; more;) {
              const std::size_t end = std::min(text.find(','), text.size());
              const auto module = std::find_if(
                  std::begin(kRecomputeModules), std::end(kRecomputeModules),
                  [&](const RecomputeModuleName& known) { return known.name == text.substr(0, end); });
              if (module == std::end(kRecomputeModules)) refuse_value(value, name, expected);
              modules.*module->member = true;
              more = end < text.size();
              text.remove_prefix(more ? end + 1 : end);
            }
            draft.config.recompute.modules = modules;
          },
          [](const RunConfig& config) { return to_string(config.recompute.modules); }};
}

}  // namespace plumbline
