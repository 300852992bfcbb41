// Configuration keys as program arguments: key=value ...
#pragma once

#include <fmt/format.h>

#include <string>

#include "core/base/error.hpp"
#include "core/config_text/config_keys.hpp"

namespace plumbline {

/// `draft` with the arguments applied and the sizes settled. Throws InputError.
inline RunConfig config_from_arguments(ConfigDraft draft, int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) throw InputError(fmt::format("{}: expected key=value", text));
    get_config_key(text.substr(0, equals), "argument")
        .parse(draft, {text.substr(equals + 1), "argument", ""});
  }
  if (const auto wrong = settle_sizes(draft)) throw InputError(*wrong);
  return draft.config;
}

}  // namespace plumbline
