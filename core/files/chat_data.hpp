// Tokenised chats, as data sets of Hugging Face and TRL have them: one JSON object per line.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace plumbline {

/// Conversations of a file, in its order. A line has "input_ids", and either "labels" (the same ids, -100 for
/// tokens that are no target) or "assistant_masks" (1: target, 0: none). If there, "position_ids" count from
/// 0, and "attention_mask" is all 1. A target is predicted from the tokens before it, so that the first token
/// is none, whatever its label.
class ChatData {
 public:
  /// Throws InputError with file and line: no JSON, ids outside [0, vocab), lists of unequal lengths, labels
  /// other than the ids, more than `seq_length` tokens, no target behind the first token, positions and masks
  /// of packed or padded conversations, other lists of numbers; and without lines.
  ChatData(const std::string& path, std::int64_t vocab, std::int64_t seq_length);

  std::int64_t size() const { return std::int64_t{static_cast<std::int64_t>(first_.size())} - 1; }
  std::int64_t length(std::int64_t conversation) const {
    return end_of(conversation) - begin_of(conversation);
  }
  std::span<const std::int32_t> ids(std::int64_t conversation) const {
    return std::span(ids_).subspan(at(begin_of(conversation)), at(length(conversation)));
  }
  /// True if the conversation's token `j` is a target.
  bool answered(std::int64_t conversation, std::int64_t j) const {
    return j > 0 && answered_[at(begin_of(conversation) + j)] != 0;
  }

  /// Other keys of lines, which training does not read: at most eight.
  const std::set<std::string>& unread_keys() const { return unread_; }

 private:
  static std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }
  std::int64_t begin_of(std::int64_t conversation) const { return first_[at(conversation)]; }
  std::int64_t end_of(std::int64_t conversation) const { return first_[at(conversation) + 1]; }

  std::vector<std::int32_t> ids_;
  std::vector<std::uint8_t> answered_;
  std::vector<std::int64_t> first_{0};  // of every conversation its first id, and the end
  std::set<std::string> unread_;
};

}  // namespace plumbline
