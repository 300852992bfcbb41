#include "core/files/chat_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/mapped_file.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kNoTarget = -100;
constexpr const char* kIds = "input_ids";
constexpr const char* kLabels = "labels";
constexpr const char* kMasks = "assistant_masks";
constexpr const char* kPositions = "position_ids";
constexpr const char* kAttended = "attention_mask";
constexpr std::size_t kMostNamed = 8;

/// One line of the file, for messages and for its lists.
class ChatLine {
 public:
  ChatLine(std::string_view text, std::string place)
      : object_(parse_json_object(text, place)), place_(std::move(place)), keys_(object_, place_) {}

  bool has(const char* key) const { return keys_.find(key) != nullptr; }
  /// A list of whole numbers from `least` to `most`.
  std::vector<std::int64_t> numbers(const char* key, std::int64_t least, std::int64_t most,
                                    const char* what) const {
    std::vector<std::int64_t> numbers;
    const Json& list = keys_.list(key);
    numbers.reserve(list.size());
    for (const Json& value : list) {
      const auto number = JsonKeys::integer_in(value, least, most);
      if (!number) {
        refuse(key, fmt::format("{} at place {}", JsonKeys::shown(value), numbers.size()),
               fmt::format("{} from {} to {}", what, least, most), "the tokenizer or the model");
      }
      numbers.push_back(*number);
    }
    return numbers;
  }
  /// Adds keys that training does not read. Throws for one with a list of numbers, which would change it.
  void add_unread(std::set<std::string>& names) const {
    for (const auto& [key, value] : object_.items()) {
      if (keys_.asked_for(key) || value.is_null()) continue;
      const auto is_number = [](const Json& each) { return each.is_number() || each.is_boolean(); };
      if (value.is_array() && std::any_of(value.begin(), value.end(), is_number)) {
        refuse(printable(key), "a list of numbers",
               fmt::format("no such list besides {}, {}, {}, {} and {}", kIds, kLabels, kMasks, kPositions,
                           kAttended),
               "the labels to what it says, or leave it out");
      }
      if (names.size() < kMostNamed) names.insert(printable(key));
    }
  }
  [[noreturn]] void refuse(const std::string& key, const std::string& found, const std::string& expected,
                           const char* change) const {
    throw InputError(
        fmt::format("{}: {}: found {}, expected {}; change {}", place_, key, found, expected, change));
  }

 private:
  Json object_;
  std::string place_;
  JsonKeys keys_;
};

/// By token: 1 for a target.
std::vector<std::int64_t> targets_of(const ChatLine& line, const std::vector<std::int64_t>& ids) {
  if (line.has(kLabels) == line.has(kMasks)) {
    line.refuse(kLabels,
                line.has(kLabels) ? "labels and assistant_masks" : "neither labels nor assistant_masks",
                "one of them", "the line");
  }
  const char* const key = line.has(kLabels) ? kLabels : kMasks;
  std::vector<std::int64_t> targets =
      line.has(kLabels) ? line.numbers(key, kNoTarget, std::numeric_limits<std::int32_t>::max(), "a label")
                        : line.numbers(key, 0, 1, "a number");
  if (targets.size() != ids.size()) {
    line.refuse(key, fmt::format("{} numbers", targets.size()), fmt::format("{}, one per id", ids.size()),
                "the line");
  }
  for (std::size_t j = 0; j < ids.size() && key == kLabels; ++j) {
    if (targets[j] != kNoTarget && targets[j] != ids[j]) {
      line.refuse(key, fmt::format("{} at place {}", targets[j], j),
                  fmt::format("its id {} or {}", ids[j], kNoTarget), "the line");
    }
    targets[j] = targets[j] == kNoTarget ? 0 : 1;
  }
  if (std::find(targets.begin() + 1, targets.end(), 1) == targets.end())
    line.refuse(key, "no answered token", "at least one behind the first token", "the line");
  return targets;
}

/// A line is one conversation, all of which is attended to. Throws InputError for other positions and masks.
void check_whole(const ChatLine& line, std::size_t tokens) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const auto check = [&](const char* key, std::int64_t first, std::int64_t step, const char* change) {
    if (!line.has(key)) return;
    const std::vector<std::int64_t> found = line.numbers(key, 0, kMost, "a number");
    if (found.size() != tokens) {
      line.refuse(key, fmt::format("{} numbers", found.size()), fmt::format("{}, one per id", tokens),
                  "the line");
    }
    for (std::size_t j = 0; j < tokens; ++j) {
      const std::int64_t expected = first + step * static_cast<std::int64_t>(j);
      if (found[j] != expected)
        line.refuse(key, fmt::format("{} at place {}", found[j], j), fmt::format("{}", expected), change);
    }
  };
  check(kPositions, 0, 1, "to a line per conversation; packed_sequence: true packs them");
  check(kAttended, 1, 0, "the line to tokens without padding");
}

}  // namespace

ChatData::ChatData(const std::string& path, std::int64_t vocab, std::int64_t seq_length) {
  const MappedFile file(path);
  const auto bytes = file.bytes();
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view written = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (written.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const ChatLine line(written, fmt::format("data: {}:{}", printable(path, 400), number));
    const std::vector<std::int64_t> ids = line.numbers(kIds, 0, vocab - 1, "an id of the vocabulary");
    const auto tokens = static_cast<std::int64_t>(ids.size());
    if (tokens < 2 || tokens > seq_length) {
      line.refuse(kIds, fmt::format("{} tokens", tokens), fmt::format("2 to seq_length {}", seq_length),
                  tokens < 2 ? "the line" : "seq_length, or shorten the conversation");
    }
    const std::vector<std::int64_t> targets = targets_of(line, ids);
    check_whole(line, ids.size());
    line.add_unread(unread_);
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    answered_.insert(answered_.end(), targets.begin(), targets.end());
    first_.push_back(static_cast<std::int64_t>(ids_.size()));
  }
  if (size() == 0) {
    throw InputError(fmt::format(
        "data: {}: found no line, expected a JSON object with input_ids on every line; change data",
        printable(path, 400)));
  }
}

}  // namespace plumbline
