#include "bench/training/generate/prompts.hpp"

#include <Random123/philox.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"

namespace plumbline::generation {
namespace {

constexpr std::size_t kMostBytes = std::size_t{64} << 20;

bool is_id(const nlohmann::json& value) {
  return value.is_number_unsigned() &&
         value.get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<std::int32_t>::max()};
}

std::vector<std::int32_t> parse_prompt(const std::string& line, const std::string& place) {
  const nlohmann::json parsed = nlohmann::json::parse(line, nullptr, false);
  std::vector<std::int32_t> ids;
  bool good = parsed.is_array();
  for (std::size_t i = 0; good && i < parsed.size(); ++i) {
    good = is_id(parsed[i]);
    if (good) ids.push_back(parsed[i].get<std::int32_t>());
  }
  if (!good) {
    throw InputError(
        fmt::format("{}: found {}, expected a JSON list of token ids such as [5, 17]; change the line", place,
                    printable(line)));
  }
  return ids;
}

}  // namespace

Prompts read_prompts(const std::string& path) {
  std::istringstream lines(read_text_file(path, kMostBytes));
  Prompts prompts;
  for (std::string line; std::getline(lines, line);) {
    prompts.push_back(parse_prompt(line, fmt::format("{}:{}", printable(path, 400), prompts.size() + 1)));
  }
  return prompts;
}

Prompts random_prompts(std::int64_t count, std::int64_t length, std::int64_t vocab, std::uint64_t seed) {
  Prompts prompts(static_cast<std::size_t>(count));
  const r123::Philox4x32::key_type key = {
      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}};
  for (std::int64_t sequence = 0; sequence < count; ++sequence) {
    std::vector<std::int32_t>& prompt = prompts[static_cast<std::size_t>(sequence)];
    prompt.reserve(static_cast<std::size_t>(length));
    for (std::int64_t i = 0; i < length; ++i) {
      const auto bits = r123::Philox4x32()(
          {{static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(sequence), 0, 0}}, key);
      prompt.push_back(static_cast<std::int32_t>(bits[0] % static_cast<std::uint64_t>(vocab)));
    }
  }
  return prompts;
}

std::string to_lines(const Prompts& prompts) {
  std::string text;
  for (const std::vector<std::int32_t>& prompt : prompts)
    text += fmt::format("[{}]\n", fmt::join(prompt, ", "));
  return text;
}

}  // namespace plumbline::generation
