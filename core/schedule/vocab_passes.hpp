// Vocabulary-parallel output layers in a pipeline, and their names in texts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace plumbline {

/// Dependencies between S and T passes of all ranks (arXiv:2411.05288): with two barriers the last stage's
/// backward needs every T, with one only every S. Interlaced: all ranks do every S and T together. none: the
/// vocabulary is not split.
enum class VocabPasses : std::uint8_t { none, two_barriers, one_barrier, interlaced };

/// By VocabPasses: names in schedule files, and the values of the key vocab_parallel.
inline constexpr std::array<std::string_view, 4> kVocabPassesNames = {"none", "two_barriers", "one_barrier",
                                                                      "interlaced"};
inline constexpr std::array<std::string_view, 4> kVocabParallelNames = {"none", "vocab-1", "vocab-2",
                                                                        "interlaced"};

constexpr std::string_view name_of(VocabPasses passes) {
  return kVocabPassesNames[static_cast<std::size_t>(passes)];
}
constexpr std::string_view vocab_parallel_name(VocabPasses passes) {
  return kVocabParallelNames[static_cast<std::size_t>(passes)];
}

/// Meaning of a name of the first and of the second list; nothing for other texts.
std::optional<VocabPasses> find_vocab_passes(std::string_view name);
std::optional<VocabPasses> find_vocab_parallel(std::string_view name);

/// A value of the key vocab_parallel. Throws InputError.
VocabPasses parse_vocab_parallel(std::string_view name);

}  // namespace plumbline
