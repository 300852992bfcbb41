// Tokens of a data file that count in the loss.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/mapped_file.hpp"

namespace plumbline::training {

/// A file of one byte, 0 or 1, per token of the data: 1 if the token counts as a target.
class LossMask {
 public:
  /// `path` empty: every token counts. `tokens` in the data, sample i of which starts at i·seq_length modulo
  /// tokens. Throws InputError: other sizes, other bytes.
  LossMask(const std::string& path, std::int64_t tokens, std::int64_t seq_length);

  /// Target j of the sample, the token after input j.
  bool counts(std::int64_t sample, std::int64_t j) const;
  /// Counted targets of the sample's seq_length, from the `first` on.
  std::int64_t counted(std::int64_t sample, std::int64_t first = 0) const;

 private:
  MappedFile file_;
  const bool all_;
  const std::int64_t tokens_;
  const std::int64_t seq_length_;
};

}  // namespace plumbline::training
