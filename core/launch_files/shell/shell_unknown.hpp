// Parts of a script's words that the script alone does not determine. In texts each stands as a mark: a
// number between two control characters, which scripts may not hold.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

/// In order of weight: a word's cause is the last one of its parts.
enum class UnknownCause {
  unset,     // a variable that the file does not set, taken as not set where a condition asks
  outside,   // an expansion that is not evaluated: $(date), ${A%x}, a pattern of file names
  left_out,  // a variable that code which is not evaluated may set
};

struct UnknownPart {
  std::string text;  // as written
  UnknownCause cause = UnknownCause::unset;
  std::string reason;  // behind the text: "which the file does not set"
};

class UnknownParts {
 public:
  static constexpr char kBegin = '\x01';
  static constexpr char kEnd = '\x02';

  /// The mark of a part.
  std::string mark(UnknownPart part);
  static bool known(std::string_view text) { return text.find(kBegin) == std::string_view::npos; }
  /// Bytes of the mark that `text` begins with.
  static std::size_t length(std::string_view text);
  /// The weightiest part of a text; nullptr when there is none.
  const UnknownPart* of(std::string_view text) const;
  /// The text with its parts as written.
  std::string shown(std::string_view text) const;
  /// The text without its parts.
  static std::string without(std::string_view text);

 private:
  const UnknownPart& at(std::string_view mark) const;

  std::vector<UnknownPart> parts_;
};

}  // namespace plumbline
