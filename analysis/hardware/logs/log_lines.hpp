// Lines of a log as words.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

/// Words of a line without the tags that launchers put in front or between ("[1,0]<stdout>:", "[0]").
std::vector<std::string_view> words_of(std::string_view line);

/// A whole number or a number that is a whole word, not negative and finite.
std::optional<double> number_of(std::string_view word);

/// True if `text` contains `part`, in any case.
bool contains_word(std::string_view text, std::string_view part);

}  // namespace plumbline
