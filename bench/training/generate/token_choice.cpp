#include "bench/training/generate/token_choice.hpp"

#include <algorithm>
#include <cmath>

#include "core/config/common_vocabulary.hpp"

namespace plumbline::generation {
namespace {

constexpr std::int64_t kNumbers = 3;  // of a row of Operators::greedy_choice

/// A pass's sequences and the tensor rank's part of their logits.
struct PassLogits {
  const training::TrainingContext& context;
  const Matrix& logits;
  std::span<const SequenceRows> rows;
  std::int64_t first;  // prompt

  std::int64_t shards() const { return context.tensor_size(); }
  std::int64_t sequences() const { return std::ssize(rows); }
  bool emulated() const { return context.config.machine.backend == Backend::emulated; }
  /// Columns of a shard in front of the vocabulary's padding; the last shards may be padding alone.
  std::int64_t valid(std::int64_t shard) const {
    return std::clamp<std::int64_t>(common_vocab(context.config) - shard * logits.cols, 0, logits.cols);
  }
  TokenPlace place(std::int64_t row) const {
    const SequenceRows& of = rows[static_cast<std::size_t>(row)];
    return {first + of.slot, of.past + of.count};
  }
};

/// The matrices `part` of all tensor ranks, one below the other, on the host; emulated: empty.
std::vector<float> from_all_shards(const PassLogits& pass, const Matrix& part, const char* holder) {
  Tensor gathered;
  if (pass.shards() > 1) {
    gathered = pass.context.make_fp32(Category::logits, holder, pass.shards() * part.rows, part.cols);
    pass.context.communicator.all_gather(Group::tensor, part, gathered);
  }
  if (pass.emulated()) return {};  // there are no numbers
  std::vector<float> parts(static_cast<std::size_t>(pass.shards() * part.elements()));
  pass.context.operators.download(gathered ? gathered.matrix() : part, parts.data());
  return parts;
}

std::vector<Choice> choose_largest(const PassLogits& pass) {
  const training::TrainingContext& context = pass.context;
  const Tensor own = context.make_fp32(Category::logits, "greedy choices", kNumbers, pass.sequences());
  const std::int64_t shard = context.communicator.layout().coordinates(context.communicator.rank()).tensor;
  context.operators.greedy_choice(pass.logits, pass.valid(shard), own);
  std::vector<Choice> chosen(pass.rows.size());
  const std::vector<float> numbers = from_all_shards(pass, own, "greedy choices of all ranks");
  if (numbers.empty()) return chosen;
  for (std::int64_t row = 0; row < pass.sequences(); ++row) {
    const auto number = [&](std::int64_t of, std::int64_t which) {
      return numbers[static_cast<std::size_t>((of * kNumbers + which) * pass.sequences() + row)];
    };
    std::int64_t best = 0;
    for (std::int64_t other = 1; other < pass.shards(); ++other)
      if (number(other, 0) > number(best, 0)) best = other;
    double sum = 0;
    for (std::int64_t other = 0; other < pass.shards(); ++other) {
      if (pass.valid(other) > 0)
        sum += number(other, 1) * std::exp(double{number(other, 0)} - number(best, 0));
    }
    if (!std::isfinite(sum)) refuse_logits(pass.place(row));
    chosen[static_cast<std::size_t>(row)] = {
        static_cast<std::int32_t>(best * pass.logits.cols + std::lround(number(best, 2))), -std::log(sum)};
  }
  return chosen;
}

std::vector<Choice> draw(const PassLogits& pass, const Sampling& sampling) {
  std::vector<Choice> chosen(pass.rows.size());
  const std::vector<float> parts = from_all_shards(pass, pass.logits, "gathered logits");
  if (parts.empty()) return chosen;
  std::vector<float> whole(static_cast<std::size_t>(common_vocab(pass.context.config)));
  const std::int64_t width = pass.logits.cols;
  for (std::int64_t row = 0; row < pass.sequences(); ++row) {
    for (std::int64_t shard = 0; shard < pass.shards(); ++shard) {
      if (pass.valid(shard) > 0)
        std::copy_n(parts.begin() + (shard * pass.sequences() + row) * width, pass.valid(shard),
                    whole.begin() + shard * width);
    }
    chosen[static_cast<std::size_t>(row)] = choose(whole, sampling, pass.place(row));
  }
  return chosen;
}

}  // namespace

std::vector<Choice> choose_tokens(const training::TrainingContext& context, const Matrix& logits,
                                  std::span<const SequenceRows> rows, std::int64_t first,
                                  const Sampling& sampling) {
  const PassLogits pass{context, logits, rows, first};
  return sampling.greedy() ? choose_largest(pass) : draw(pass, sampling);
}

}  // namespace plumbline::generation
