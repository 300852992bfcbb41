#include "core/config/families/family_defaults.hpp"

#include <fmt/format.h>

#include <span>

#include "core/base/embedded_file.hpp"

namespace plumbline {

std::span<const EmbeddedFile> family_files();  // made by cmake/embed.cmake

namespace {

const Json& family_defaults() {
  static const Json kDefaults =
      parse_json_object(embedded_text(family_files(), "defaults.json"), "defaults.json");
  return kDefaults.at("families");
}

/// Keys whose null means none, whatever the default.
bool may_be_null(std::string_view key) {
  return key.starts_with("sliding_window") || key == "attention_chunk_size" || key.ends_with("_softcapping");
}

}  // namespace

void add_family_defaults(const Family& family, const JsonKeys& keys, Json& object) {
  const auto usual = family_defaults().find(family.architecture);
  if (usual == family_defaults().end()) return;
  for (const auto& [key, value] : usual->items()) {
    const auto found = object.find(key);
    if (found == object.end()) {
      object[key] = value;
      continue;
    }
    // A null window is none; a key whose default is null has its meaning in the reader.
    if (!found->is_null() || value.is_null() || may_be_null(key)) continue;
    if (!value.is_boolean())
      keys.fail(key, fmt::format("found null, expected a value; leave the key out for {}", value.dump()));
    *found = false;
  }
}

}  // namespace plumbline
