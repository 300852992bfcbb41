#include "core/config_text/layer_modules_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <ranges>
#include <string>

#include "core/config_text/config_key_kinds.hpp"

namespace plumbline {
namespace {

/// "some of a,b,c": the names of a table.
template <class Names>
std::string some_of(const Names& names) {
  std::string expected = "some of ";
  for (const auto& module : names)
    expected += fmt::format("{}{}", &module == std::ranges::begin(names) ? "" : ",", module.name);
  return expected;
}

/// The parts that a list of their names sets; nothing for a name that the table lacks.
template <class Modules, class Names>
std::optional<Modules> named_modules(std::string_view text, const Names& names) {
  Modules modules;
  for (bool more = true; more;) {
    const std::size_t end = std::min(text.find(','), text.size());
    const auto module =
        std::ranges::find_if(names, [&](const auto& known) { return known.name == text.substr(0, end); });
    if (module == std::ranges::end(names)) return std::nullopt;
    modules.*module->member = true;
    more = end < text.size();
    text.remove_prefix(more ? end + 1 : end);
  }
  return modules;
}

}  // namespace

ConfigKey recompute_modules_key() {
  const char* const name = "recompute_modules";
  const std::string expected = some_of(kRecomputeModules);
  return {name, "", expected,
          [=](ConfigDraft& draft, const ConfigText& value) {
            const auto modules = named_modules<RecomputeModules>(value.text, kRecomputeModules);
            if (!modules) refuse_value(value, name, expected);
            draft.config.recompute.modules = *modules;
          },
          [](const RunConfig& config) { return to_string(config.recompute.modules); }};
}

ConfigKey offload_modules_key() {
  const char* const name = "offload_modules";
  const std::string expected = "none, or " + some_of(kOffloadModules);
  return {name, "", expected,
          [=](ConfigDraft& draft, const ConfigText& value) {
            const auto modules = value.text == "none"
                                     ? OffloadModules()
                                     : named_modules<OffloadModules>(value.text, kOffloadModules);
            if (!modules) refuse_value(value, name, expected);
            draft.config.offload.modules = *modules;
          },
          [](const RunConfig& config) { return to_string(config.offload.modules); }};
}

}  // namespace plumbline
