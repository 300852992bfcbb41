// Prompts as token ids: from a file, or random.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plumbline::generation {

using Prompts = std::vector<std::vector<std::int32_t>>;

/// One JSON list of ids per line. Throws InputError that names file and line.
Prompts read_prompts(const std::string& path);
/// `count` prompts of `length` ids below `vocab`.
Prompts random_prompts(std::int64_t count, std::int64_t length, std::int64_t vocab, std::uint64_t seed);
/// The lines that read_prompts reads back.
std::string to_lines(const Prompts& prompts);

}  // namespace plumbline::generation
