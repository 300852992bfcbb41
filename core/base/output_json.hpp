// JSON as commands print and store it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "core/base/escaped_controls.hpp"

namespace plumbline {

/// The value as text, with nothing that a terminal obeys (escaped_controls); bytes that are not UTF-8 become
/// U+FFFD. `indent`: blanks per level, -1 for one line.
template <class Value>
std::string output_json(const Value& json, int indent) {
  return escaped_controls(json.dump(indent, ' ', false, Value::error_handler_t::replace));
}

}  // namespace plumbline
