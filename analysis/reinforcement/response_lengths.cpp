#include "analysis/reinforcement/response_lengths.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <numbers>
#include <random>
#include <sstream>
#include <string>

#include "analysis/predict/packed_sequences.hpp"
#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

/// Lengths of every pack.
std::vector<std::vector<std::int64_t>> packs_of(std::vector<std::int64_t> lengths, std::int64_t room) {
  std::sort(lengths.begin(), lengths.end(), std::greater<>());
  std::vector<std::vector<std::int64_t>> packs;
  std::multimap<std::int64_t, std::size_t> left;  // free tokens of a pack
  for (const std::int64_t length : lengths) {
    auto into = left.lower_bound(length);
    if (into == left.end()) {
      into = left.emplace(room, packs.size());
      packs.emplace_back();
    }
    const auto [free, pack] = *into;
    left.erase(into);
    packs[pack].push_back(length);
    left.emplace(free - length, pack);
  }
  return packs;
}

/// Tokens in a file, in ascending order.
std::vector<std::int64_t> lengths_in(const std::string& path, std::int64_t most) {
  constexpr std::size_t kMostBytes = 64U << 20;
  const std::string text = read_text_file(path, kMostBytes);
  std::vector<std::int64_t> lengths;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    std::int64_t length = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), length);
    if (error != std::errc() || end != word.data() + word.size() || length < 1)
      throw InputError(
          fmt::format("response_lengths: {}: found {}, expected whole numbers of tokens, 1 and more",
                      printable(path, 200), printable(word, 40)));
    lengths.push_back(std::min(length, most));
  }
  if (lengths.empty())
    throw InputError(fmt::format("response_lengths: {}: found no number, expected tokens of responses",
                                 printable(path, 200)));
  std::sort(lengths.begin(), lengths.end());
  return lengths;
}

}  // namespace

double normal_quantile(double p) {
  // Bisection: erfc is monotonic, and 60 halvings of [-9, 9] reach the last digits.
  double low = -9, high = 9;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::numbers::sqrt2) / 2 < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

std::vector<std::int64_t> response_lengths(const RunConfig& config) {
  const RolloutConfig& rollout = config.reinforcement.rollout;
  const std::int64_t most = config.generation.max_new_tokens;
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(config.reinforcement.responses()), most);
  if (rollout.length_mean == 0 && rollout.lengths.empty()) return lengths;
  const std::vector<std::int64_t> known =
      rollout.lengths.empty() ? std::vector<std::int64_t>() : lengths_in(rollout.lengths, most);
  const double sigma = rollout.length_sigma;
  const double mu = std::log(rollout.length_mean) - sigma * sigma / 2;
  const auto count = static_cast<double>(lengths.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const double quantile = (static_cast<double>(i) + 0.5) / count;
    if (!known.empty()) {
      lengths[i] = known[static_cast<std::size_t>(quantile * static_cast<double>(known.size()))];
      continue;
    }
    const double z = sigma == 0 ? 0 : normal_quantile(quantile);
    lengths[i] = std::clamp<std::int64_t>(std::llround(std::exp(mu + sigma * z)), 1, most);
  }
  // Fisher and Yates by hand: the draws of std::shuffle differ between standard libraries.
  std::mt19937_64 random(config.measure.seed);
  for (std::size_t i = lengths.size(); i > 1; --i) std::swap(lengths[i - 1], lengths[random() % i]);
  return lengths;
}

RunConfig packed_update(const RunConfig& update, std::span<const std::int64_t> responses,
                        std::int64_t prompt) {
  std::vector<std::int64_t> lengths(responses.begin(), responses.end());
  for (std::int64_t& length : lengths) length = std::min(length + prompt, update.batch.seq_length);
  PackedSequences packed;
  packed.seq_length = update.batch.seq_length;
  for (const std::vector<std::int64_t>& pack : packs_of(std::move(lengths), packed.seq_length)) {
    packed.first_of.push_back(packed.lengths.size());
    for (const std::int64_t length : pack) {
      packed.lengths.push_back(length);
      packed.tokens += length;
      packed.longest = std::max(packed.longest, length);
    }
  }
  RunConfig made = update;
  const std::int64_t together = made.batch.micro_batch_size * made.parallel.data();
  const double share =
      static_cast<double>(update.batch.global_batch_size) / static_cast<double>(responses.size());
  const auto packs = static_cast<std::int64_t>(static_cast<double>(packed.first_of.size()) * share);
  made.batch.global_batch_size = std::max<std::int64_t>(1, (packs + together - 1) / together) * together;
  made.batch.packed = packed_work(packed, made).attention;
  return made;
}

}  // namespace plumbline
