#include "core/schedule/vocab_passes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

std::optional<VocabPasses> find_in(const std::array<std::string_view, 4>& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<VocabPasses>(found - names.begin());
}

}  // namespace

std::optional<VocabPasses> find_vocab_passes(std::string_view name) {
  return find_in(kVocabPassesNames, name);
}

std::optional<VocabPasses> find_vocab_parallel(std::string_view name) {
  return find_in(kVocabParallelNames, name);
}

VocabPasses parse_vocab_parallel(std::string_view name) {
  if (const auto passes = find_vocab_parallel(name)) return *passes;
  throw InputError(
      fmt::format("vocab_parallel: \"{}\"; expected none, vocab-1, vocab-2 or interlaced", printable(name)));
}

}  // namespace plumbline
