// Hints for misspelt names.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace plumbline {

/// Least number of characters to insert, remove or replace (Levenshtein).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The entry of `known` nearest to `name` in edit distance, if that is at most a third of the characters
/// (dashes in front left out), or else the shortest that `name` begins; else empty. A name that is merely the
/// nearest makes a wrong hint.
std::string_view similar_name(std::string_view name, const std::vector<std::string_view>& known);

}  // namespace plumbline
