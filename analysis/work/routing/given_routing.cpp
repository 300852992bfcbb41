#include "analysis/work/routing/given_routing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <system_error>
#include <utility>

#include "analysis/step/stage_shapes.hpp"
#include "core/base/error.hpp"
#include "core/base/text_input.hpp"
#include "core/config/distillation_config.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kBytesOfNumber = 12;  // a number of 32 bits at most, its sign and its separator
constexpr std::int64_t kBytesOfName = 24;    // "expert 123456,"
constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;  // of a file with many steps
constexpr std::string_view kNames = "copy,layer,microbatch,expert 0";
constexpr std::string_view kStep = "step,";

/// Size of a routing in every dimension.
struct Extent {
  explicit Extent(const RunConfig& config)
      : copies(config.layout().senders()),
        first_layer(config.model.mixture.first_dense),
        layers(config.model.layers + config.model.prediction_modules - first_layer),
        microbatches(config.microbatches()),
        experts(config.model.mixture.experts),
        tokens(config.batch.micro_batch_size * config.batch.seq_length / config.parallel.context /
               (copies / config.layout().data)),
        choices(tokens * config.model.mixture.top_k) {}
  std::int64_t lines() const { return copies * layers * microbatches; }

  std::int64_t copies;  // Layout::senders
  std::int64_t first_layer, layers, microbatches, experts, tokens, choices;
};

/// `many`, spread evenly over [first, end); the first of them take the remainder.
void spread(std::int64_t many, std::int64_t first, std::int64_t end, std::vector<std::int32_t>& over) {
  for (std::int64_t i = first; i < end; ++i) {
    over[static_cast<std::size_t>(i)] =
        static_cast<std::int32_t>(many / (end - first) + (i - first < many % (end - first) ? 1 : 0));
  }
}

/// Whole numbers nearest to the shares with the same sum: the remainder goes to the largest fractions.
std::vector<std::int32_t> rounded(const std::vector<double>& shares, std::int64_t sum) {
  std::vector<std::int32_t> numbers;
  numbers.reserve(shares.size());
  std::vector<std::size_t> order(shares.size());
  for (const double share : shares)
    numbers.push_back(static_cast<std::int32_t>(share * static_cast<double>(sum)));
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto remainder = [&](std::size_t i) { return shares[i] * static_cast<double>(sum) - numbers[i]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return remainder(a) > remainder(b); });
  const std::int64_t left = sum - std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
  for (std::size_t i = 0; i < static_cast<std::size_t>(std::max<std::int64_t>(0, left)); ++i)
    ++numbers[order[i % order.size()]];
  return numbers;
}

std::vector<double> zipf_shares(double exponent, std::int64_t experts) {
  std::vector<double> shares;
  for (std::int64_t i = 1; i <= experts; ++i) shares.push_back(std::pow(static_cast<double>(i), -exponent));
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= sum;
  return shares;
}

/// The same tokens everywhere.
std::vector<RoutedTokens> everywhere(const Extent& extent, const std::vector<std::int32_t>& tokens) {
  std::vector<RoutedTokens> routing;
  routing.reserve(static_cast<std::size_t>(extent.lines()));
  for (int copy = 0; copy < extent.copies; ++copy) {
    for (std::int64_t layer = extent.first_layer; layer < extent.first_layer + extent.layers; ++layer) {
      for (std::int64_t microbatch = 0; microbatch < extent.microbatches; ++microbatch)
        routing.push_back({copy, layer, static_cast<std::uint32_t>(microbatch), tokens});
    }
  }
  return routing;
}

/// One line after the other, each number of it.
class TextLines {
 public:
  TextLines(std::string_view text, const std::string& origin) : text_(text), origin_(origin) {}

  bool next() {
    if (text_.empty()) return false;
    const std::size_t end = std::min(text_.find('\n'), text_.size());
    line_ = text_.substr(0, end);
    if (line_.ends_with('\r')) line_.remove_suffix(1);
    text_.remove_prefix(std::min(end + 1, text_.size()));
    ++number_;
    return true;
  }
  std::string_view line() const { return line_; }
  [[noreturn]] void refuse(const std::string& what) const {
    throw InputError(fmt::format("{}:{}: {}", origin_, number_, what));
  }
  /// So many numbers from 0 on, those from `first` on; the others stay.
  void read(std::vector<std::int32_t>& numbers, std::size_t first) const {
    const char* at = line_.data();
    const char* const stop = at + line_.size();
    for (std::size_t i = first; i < numbers.size(); ++i) {
      const auto [end, error] = std::from_chars(at, stop, numbers[i]);
      const bool last = i + 1 == numbers.size();
      const bool goes_on = last ? end == stop : end != stop && *end == ',';
      if (error != std::errc() || !goes_on || numbers[i] < 0) {
        refuse(fmt::format(
            "found no number from 0 to 2147483647 in column {} of {}, expected one, and no more columns",
            i + 1 - first, numbers.size() - first));
      }
      at = end + (last ? 0 : 1);
    }
  }

 private:
  std::string_view text_;
  std::string_view line_;
  const std::string& origin_;
  std::int64_t number_ = 0;
};

}  // namespace

std::vector<std::vector<RoutedTokens>> parse_routing_steps(std::string_view text, const std::string& origin,
                                                           const RunConfig& config) {
  const Extent extent(config);
  TextLines lines(text, origin);
  const bool first = lines.next();
  const bool has_steps = first && lines.line().starts_with(kStep);
  if (!first || !lines.line().substr(has_steps ? kStep.size() : 0).starts_with(kNames)) {
    lines.refuse(
        "found another first line, expected step,copy,layer,microbatch,expert 0, … as save_routing writes "
        "it");
  }
  std::map<std::int32_t, std::pair<std::vector<RoutedTokens>, std::vector<bool>>> steps;
  if (!has_steps) steps[0].second.resize(static_cast<std::size_t>(extent.lines()));
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(4 + extent.experts));
  while (lines.next()) {
    lines.read(numbers, has_steps ? 0 : 1);
    auto& [routing, seen] = steps[numbers[0]];
    // Every line has more than a byte: so many steps cannot be whole.
    if (std::ssize(steps) * extent.lines() > std::ssize(text))
      lines.refuse(
          fmt::format("found {} steps, expected fewer in a file of {} bytes", steps.size(), text.size()));
    seen.resize(static_cast<std::size_t>(extent.lines()));
    const auto within = [&](std::size_t i, const char* what, std::int64_t from, std::int64_t count) {
      if (numbers[i] >= from && numbers[i] < from + count) return numbers[i] - from;
      lines.refuse(fmt::format("found {} {}, expected {} to {}", what, numbers[i], from, from + count - 1));
    };
    const std::int64_t copy = within(1, "copy", 0, extent.copies);
    const std::int64_t layer = within(2, "layer", extent.first_layer, extent.layers);
    const std::int64_t microbatch = within(3, "micro-batch", 0, extent.microbatches);
    const auto place =
        static_cast<std::size_t>((copy * extent.layers + layer) * extent.microbatches + microbatch);
    if (seen[place]) lines.refuse("found this copy, layer and micro-batch again, expected each once");
    seen[place] = true;
    const auto experts = numbers.begin() + 4;
    const std::int64_t sum = std::accumulate(experts, numbers.end(), std::int64_t{0});
    if (sum != extent.choices) {
      lines.refuse(fmt::format("found {} tokens of all experts, expected tokens x top-k = {} x {}", sum,
                               extent.tokens, config.model.mixture.top_k));
    }
    const std::int32_t most = *std::max_element(experts, numbers.end());
    if (most > extent.tokens)
      lines.refuse(fmt::format("found {} tokens of one expert, expected at most {}", most, extent.tokens));
    routing.push_back(
        {numbers[1], numbers[2], static_cast<std::uint32_t>(numbers[3]), {experts, numbers.end()}});
  }
  std::vector<std::vector<RoutedTokens>> all;
  for (auto& [step, known] : steps) {
    if (std::ssize(known.first) != extent.lines()) {
      throw InputError(
          fmt::format("{}: found {} lines with tokens{}, expected {} copies x {} layers x {} micro-batches",
                      origin, known.first.size(), has_steps ? fmt::format(" of step {}", step) : "",
                      extent.copies, extent.layers, extent.microbatches));
    }
    all.push_back(std::move(known.first));
  }
  if (all.empty()) throw InputError(fmt::format("{}: found no lines with tokens, expected a step", origin));
  return all;
}

std::vector<RoutedTokens> parse_routing(std::string_view text, const std::string& origin,
                                        const RunConfig& config) {
  return std::move(parse_routing_steps(text, origin, config).back());
}

namespace {

std::vector<std::vector<RoutedTokens>> steps_of_file(const RunConfig& config, const std::string& path) {
  const Extent extent(config);
  const std::int64_t most = std::max(
      (extent.lines() + 1) * (4 + extent.experts) * kBytesOfNumber + (4 + extent.experts) * kBytesOfName,
      kMostBytes);
  return parse_routing_steps(read_text_file(path, static_cast<std::size_t>(most)), path, config);
}

}  // namespace

std::vector<std::vector<RoutedTokens>> given_steps(const RunConfig& config) {
  if (!config.model.mixture) return {{}};
  if (!config.mixture.routing_file()) return {given_routing(config)};
  return steps_of_file(config, config.mixture.routing);
}

std::vector<std::vector<RoutedTokens>> given_teacher_steps(const RunConfig& config) {
  if (!config.spreads_teacher_experts() || !config.mixture.routing_file()) return {};
  const std::string path = teacher_routing_file(config.mixture.routing);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return {};
  return steps_of_file(evaluated_teacher(config), path);
}

std::vector<RoutedTokens> given_routing(const RunConfig& config) {
  const Extent extent(config);
  const MixtureConfig& keys = config.mixture;
  if (keys.routing_file()) return std::move(given_steps(config).back());
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(extent.experts));
  if (const auto exponent = keys.zipf_exponent()) {
    tokens = rounded(zipf_shares(*exponent, extent.experts), extent.choices);
  } else {
    const std::int64_t here =
        keys.routing == "worst" ? extent.experts / config.layout().expert : extent.experts;
    const std::int64_t come = extent.tokens * std::min(here, config.model.mixture.top_k);
    spread(come, 0, here, tokens);
    if (here < extent.experts) spread(extent.choices - come, here, extent.experts, tokens);
  }
  return everywhere(extent, tokens);
}

MeanLoad mean_load(const RunConfig& config, const std::vector<RoutedTokens>& given) {
  const Extent extent(config);
  MeanLoad load(static_cast<std::size_t>(extent.first_layer + extent.layers));
  for (std::int64_t layer = extent.first_layer; layer < extent.first_layer + extent.layers; ++layer) {
    const auto exponent = config.mixture.zipf_exponent();
    load[static_cast<std::size_t>(layer)] =
        config.mixture.routing_file() ? std::vector<double>(static_cast<std::size_t>(extent.experts))
                                      : zipf_shares(exponent.value_or(0), extent.experts);
  }
  const double all = static_cast<double>(extent.choices * extent.copies * extent.microbatches);
  for (const RoutedTokens& line : given) {
    if (!config.mixture.routing_file()) break;
    std::vector<double>& shares = load[static_cast<std::size_t>(line.layer)];
    for (std::size_t i = 0; i < shares.size(); ++i) shares[i] += line.tokens[i] / all;
  }
  for (const std::vector<double>& shares : load) {
    if (shares.empty()) continue;
    const double most = *std::max_element(shares.begin(), shares.end());
    if (most * static_cast<double>(config.model.mixture.top_k) <= 1 + 1e-9) continue;
    throw InputError(fmt::format(
        "moe_routing: found {}, which gives {:.3g} of all choices to one expert, expected at most one of "
        "the {} choices of every token",
        config.mixture.routing, most, config.model.mixture.top_k));
  }
  return load;
}

}  // namespace plumbline
