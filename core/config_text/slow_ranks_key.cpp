#include "core/config_text/slow_ranks_key.hpp"

#include <fmt/format.h>

#include <charconv>

#include "core/config_text/config_key_kinds.hpp"

namespace plumbline {
namespace {

constexpr double kMostSlowdown = 100;
constexpr std::size_t kMostSlowedRanks = 4096;

/// The number at the beginning of `text`, which it leaves behind; false: there is none.
template <class Number>
bool take_number(std::string_view& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool take(std::string_view& text, char expected) {
  if (text.empty() || text.front() != expected) return false;
  text.remove_prefix(1);
  return true;
}

/// False if the text is no such list.
bool read_list(std::string_view text, std::vector<SlowedRank>& ranks) {
  do {
    SlowedRank& slowed = ranks.emplace_back();
    const bool read = take_number(text, slowed.rank) && take(text, ':') && take_number(text, slowed.factor);
    const bool in_range = slowed.rank >= 0 && slowed.factor >= 1 && slowed.factor <= kMostSlowdown;
    if (!read || !in_range || ranks.size() > kMostSlowedRanks) return false;
  } while (take(text, ','));
  return text.empty();
}

}  // namespace

ConfigKey slow_ranks_key() {
  const char* const name = "slow_ranks";
  const char* const expected =
      "none, or ranks and how many times as long they compute (1 to 100), such as 3:1.1 or 3:1.1,5:1.2";
  return {name, "", expected,
          [=](ConfigDraft& draft, const ConfigText& value) {
            std::vector<SlowedRank> ranks;
            if (value.text != "none" && !read_list(value.text, ranks)) refuse_value(value, name, expected);
            draft.config.measure.slow_ranks = std::move(ranks);
          },
          [](const RunConfig& config) -> std::string {
            std::string text;
            for (const SlowedRank& slowed : config.measure.slow_ranks)
              text += fmt::format("{}{}:{}", text.empty() ? "" : ",", slowed.rank, slowed.factor);
            return text.empty() ? "none" : text;
          }};
}

}  // namespace plumbline
