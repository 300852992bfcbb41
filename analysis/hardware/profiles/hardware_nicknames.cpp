#include "analysis/hardware/profiles/hardware_nicknames.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string_view>
#include <utility>

#include "analysis/hardware/hardware.hpp"

namespace plumbline {
namespace {

/// Usual card of each generation with several: the one in large clusters.
constexpr std::pair<std::string_view, std::string_view> kUsual[] = {{"v100", "v100-sxm-32gb"},
                                                                    {"a100", "a100-sxm-80gb"},
                                                                    {"h100", "h100-sxm-80gb"},
                                                                    {"h200", "h200-sxm-141gb"},
                                                                    {"gh200", "gh200-96gb"}};

std::vector<std::string> words_of_name(std::string_view name) {
  std::vector<std::string> words(1);
  for (const char c : name) {
    if (c == '-' || c == '_' || c == ' ') {
      words.emplace_back();
    } else {
      words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return words;
}

/// "mi300" matches "mi300x", but "h20" does not match "h200".
bool begins(const std::string& word, const std::string& asked) {
  return word.starts_with(asked) &&
         (word.size() == asked.size() || std::isdigit(static_cast<unsigned char>(word[asked.size()])) == 0);
}

/// Also "4090" and "rtx4090" are "rtx-4090-24gb".
bool fits_name(const std::string& preset, const std::vector<std::string>& asked) {
  const std::vector<std::string> words = words_of_name(preset);
  const std::string& name = asked.front();
  const bool model = words.size() > 1 && (name == words[1] || name == words[0] + words[1]);
  if (name.size() < 2 || (name.size() == 2 && name != words.front()) ||
      !(model || begins(words.front(), name)))
    return false;
  return std::all_of(asked.begin() + 1, asked.end(), [&](const std::string& word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  });
}

}  // namespace

HardwareNickname hardware_nickname(const std::string& name) {
  HardwareNickname found;
  const std::vector<std::string> asked = words_of_name(name);
  for (std::string& preset : hardware_preset_names()) {
    if (preset == name) return {};
    if (fits_name(preset, asked)) found.others.push_back(std::move(preset));
  }
  const auto* const usual = std::find_if(std::begin(kUsual), std::end(kUsual),
                                         [&](const auto& each) { return each.first == asked.front(); });
  auto chosen = found.others.size() == 1 ? found.others.begin()
                : usual == std::end(kUsual)
                    ? found.others.end()
                    : std::find(found.others.begin(), found.others.end(), usual->second);
  if (chosen == found.others.end()) return found;
  found.preset = *chosen;
  found.others.erase(chosen);
  return found;
}

}  // namespace plumbline
