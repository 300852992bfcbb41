// Samples of supervised fine-tuning: conversations, one or several to a sequence.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/training/parameters/conversations.hpp"
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
  /// The sample's conversations on a context-parallel rank.
  Conversations conversations(std::int64_t sample, int context_rank) const;
  /// With dynamic_context_parallel: a rank's inputs, and of each the next token, or -100 if it does not
  /// count.
  struct Rows {
    std::vector<std::int32_t> inputs, targets;
  };
  Rows rows(std::int64_t sample, const SequenceChunks& whole) const;

 private:
  /// The rank's group and its conversations.
  const ContextGroup& group_of(std::int64_t sample, int context_rank) const;

  std::int64_t seq_length_;
  ChatData chats_;
  ChatOrder order_;
};

}  // namespace plumbline::training
