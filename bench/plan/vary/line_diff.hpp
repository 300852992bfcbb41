// Changed lines of a text as `diff -u` prints them.
#pragma once

#include <string>
#include <string_view>

namespace plumbline {

/// Hunks with three lines around each change; empty for equal texts.
std::string unified_diff(const std::string& name, std::string_view before, std::string_view after);

}  // namespace plumbline
