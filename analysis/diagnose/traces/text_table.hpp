// Texts of a trace, each kept once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace plumbline {

inline constexpr std::int64_t kMostTraceTexts = 2'000'000;
inline constexpr std::int64_t kMostTextBytes = std::int64_t{512} << 20;

class TextTable {
 public:
  explicit TextTable(std::string origin);

  /// Index of the text, of its first 400 bytes where it is longer. Throws InputError for more texts than
  /// kMostTraceTexts or kMostTextBytes.
  std::uint32_t index_of(std::string_view text);
  std::string_view text(std::uint32_t index) const { return texts_[index]; }
  /// The texts, leaving none.
  std::vector<std::string> take();

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };

  std::string origin_;
  std::vector<std::string> texts_;
  std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> index_;
  std::int64_t bytes_ = 0;
};

}  // namespace plumbline
