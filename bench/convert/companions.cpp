#include "bench/convert/companions.hpp"

#include <filesystem>

#include "core/base/text_input.hpp"

namespace plumbline::convert {
namespace {

constexpr std::size_t kMostCompanionBytes = std::size_t{64} << 20;

constexpr const char* kCompanions[] = {
    "generation_config.json", "tokenizer.json",      "tokenizer_config.json",
    "tokenizer.model",        "vocab.json",          "merges.txt",
    "added_tokens.json",      "chat_template.jinja", "vocab.txt",
    "special_tokens_map.json"};

}  // namespace

std::vector<PlannedText> companions_in(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<PlannedText> found;
  std::error_code error;
  for (const char* name : kCompanions) {
    const fs::path path = fs::path(folder) / name;
    if (folder.empty() || !fs::is_regular_file(path, error)) continue;
    found.push_back({name, read_text_file(path.string(), kMostCompanionBytes)});
  }
  return found;
}

}  // namespace plumbline::convert
