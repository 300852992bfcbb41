// The cells of a schedule's text forms.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/schedule/schedule.hpp"

namespace plumbline {

/// Limit for a schedule's name, which a file or its path gives, in printed messages.
inline constexpr std::size_t kLongestScheduleName = 400;

/// Reads one cell, `<stage><TYPE><micro-batch>` or `(a;b)OVERLAP_F_B`. Returns the number of its actions: 0
/// for cells of PyTorch's lowered form that do not affect the order of work. Throws InputError, `where`
/// first.
int parse_cell(std::string_view cell, Action (&actions)[2], const std::string& where);

/// Appends cells, overlapped pairs as one.
void append_cells(const std::vector<Action>& actions, char separator, std::string& text);

/// Without blanks, tabs and carriage returns at both ends.
std::string_view trimmed(std::string_view text);

/// Throws InputError: where, the cell, why.
[[noreturn]] void malformed_cell(const std::string& where, std::string_view cell, const std::string& why);

}  // namespace plumbline
