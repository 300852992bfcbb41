// Small text inputs: a whole file under a size cap, the nearest known name for a misspelled one, bytes with a
// unit.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/one_line.hpp"
#include "core/base/units.hpp"

namespace plumbline {

/// The file's bytes. Throws InputError when it is missing, not a regular file, unreadable, or larger than
/// `max_bytes`.
std::string read_text_file(const std::string& path, std::size_t max_bytes);

/// The first line of a small file, such as the kernel's in /sys; empty when it cannot be read.
std::string first_line(const std::string& path);

/// The entry of `known` with the smallest edit distance (Levenshtein) to `name`; empty when `known` is empty.
std::string_view nearest_name(std::string_view name, const std::vector<std::string_view>& known);

/// "2GiB", "512 MiB", "1e9" → bytes. Throws InputError naming `key`, also for a fraction of a byte: 0 has a
/// meaning of its own where it is asked for.
Bytes parse_bytes(const std::string& text, const std::string& key);

}  // namespace plumbline
