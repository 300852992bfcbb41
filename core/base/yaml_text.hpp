// YAML from unchecked files: one document, bounded when it expands.
#pragma once

#include <string>

#include "core/base/json_keys.hpp"

namespace YAML {
class Node;
}

namespace plumbline {

/// The only document of a YAML text; `path` stands for the file in messages. Throws InputError when something
/// starts a second one, YAML::Exception when it is not YAML.
YAML::Node load_one_document(const std::string& text, const std::string& path);

/// A node and all below it; scalars by YAML's core schema, a quoted one is always a text. Throws InputError
/// when it is nested too deep or expands to too many values.
Json json_of(const YAML::Node& node, const std::string& origin);

/// A YAML text that is one mapping, as JSON. Throws InputError naming `path` and the line.
Json parse_yaml_object(const std::string& text, const std::string& path);
/// The same for one list.
Json parse_yaml_list(const std::string& text, const std::string& path);

}  // namespace plumbline
