#include "bench/training/trainer/loss_mask.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"

namespace plumbline::training {

LossMask::LossMask(const std::string& path, std::int64_t tokens, std::int64_t seq_length)
    : all_(path.empty()), tokens_(tokens), seq_length_(seq_length) {
  if (all_) return;
  try {
    file_ = MappedFile(path);
  } catch (const InputError& error) {
    throw InputError(fmt::format("loss_mask: {}", error.what()));
  }
  const auto bytes = file_.bytes();
  if (std::ssize(bytes) != tokens) {
    throw InputError(fmt::format("loss_mask: {} has {} bytes, expected one for each of the {} tokens of data",
                                 printable(path, 400), bytes.size(), tokens));
  }
  const auto other = std::find_if(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; });
  if (other != bytes.end()) {
    throw InputError(fmt::format("loss_mask: {} has {} at byte {}, expected 0 or 1", printable(path, 400),
                                 std::to_integer<int>(*other), other - bytes.begin()));
  }
}

bool LossMask::counts(std::int64_t sample, std::int64_t j) const {
  if (all_) return true;
  const std::int64_t first = sample % tokens_ * (seq_length_ % tokens_) % tokens_;
  return file_.bytes()[static_cast<std::size_t>((first + j + 1) % tokens_)] == std::byte{1};
}

std::int64_t LossMask::counted(std::int64_t sample, std::int64_t first) const {
  if (all_) return seq_length_ - first;
  std::int64_t count = 0;
  for (std::int64_t j = first; j < seq_length_; ++j) count += counts(sample, j) ? 1 : 0;
  return count;
}

}  // namespace plumbline::training
