// Samples of supervised fine-tuning: conversations, one or several to a sequence.
#pragma once

#include <cstdint>
#include <vector>

#include "core/config/run_config.hpp"
#include "core/files/chat_data.hpp"
#include "core/files/chat_packs.hpp"

namespace plumbline::training {

/// Samples are numbered as in ChatOrder. Behind its conversations a sample is padding: token 0, no target.
class ChatSamples {
 public:
  /// Throws InputError as ChatData does.
  explicit ChatSamples(const RunConfig& config);

  /// seq_length + 1 ids.
  std::vector<std::int32_t> ids(std::int64_t sample) const;
  /// By input: 1 if the next token is one of the same conversation, and a target.
  std::vector<std::uint8_t> counts(std::int64_t sample) const;
  /// Targets of the inputs from `first` on.
  std::int64_t counted(std::int64_t sample, std::int64_t first) const;
  /// Tokens of the sample's conversations.
  std::vector<std::int64_t> lengths(std::int64_t sample) const;

 private:
  std::int64_t seq_length_;
  ChatData chats_;
  ChatOrder order_;
};

}  // namespace plumbline::training
