#include "core/config/layer_distribution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <numeric>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

constexpr const char* kExpected =
    "even, balanced, embedding+loss, embedding, loss, or the layers of every stage such as 9,9,8,6, or 9,*,6";

/// Parts of a model that count as a layer of their stage.
struct CountedEnds {
  std::string_view name;
  int embedding;
  int loss;
};
constexpr CountedEnds kCountedEnds[] = {{"embedding+loss", 1, 1}, {"embedding", 1, 0}, {"loss", 0, 1}};

const CountedEnds* find_counted(const std::string& text) {
  const auto* const found = std::find_if(std::begin(kCountedEnds), std::end(kCountedEnds),
                                         [&](const CountedEnds& each) { return each.name == text; });
  return found == std::end(kCountedEnds) ? nullptr : found;
}

std::vector<int> counted_layers(const RunConfig& config, const CountedEnds& ends, int stages) {
  const std::int64_t all = config.model.layers + ends.embedding + ends.loss;
  if (all % stages != 0) {
    throw InputError(fmt::format(
        "layer_distribution: found {} with the {} layers of {} on {} stages, expected {} in equal parts",
        ends.name, config.model.layers, config.model.name, stages, all));
  }
  std::vector<int> layers = even_layers(all, stages);
  layers.front() -= ends.embedding;
  layers.back() -= ends.loss;
  if (config.machine.own_step() && layers.front() < 1) {
    throw InputError(fmt::format(
        "layer_distribution: found {} with one layer on each of {} stages, expected one at least beside the "
        "embedding",
        ends.name, stages));
  }
  return layers;
}

/// The numbers of "9,9,8,6"; empty for any other text.
std::vector<int> numbers(const std::string& text) {
  std::vector<int> found;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  while (true) {
    int number = 0;
    const auto [stop, error] = std::from_chars(at, end, number);
    if (error != std::errc() || number < 0) return {};
    found.push_back(number);
    if (stop == end) return found;
    if (*stop != ',') return {};
    at = stop + 1;
  }
}

/// "9,*,6": layers of the first and the last pipeline rank, others share the rest.
struct GivenEnds {
  std::optional<int> first;
  std::optional<int> last;
};

std::optional<GivenEnds> find_given(const std::string& text) {
  const std::size_t star = text.find('*');
  if (star == std::string::npos) return std::nullopt;
  const auto one = [](const std::string& part) {
    const std::vector<int> found = numbers(part);
    return found.size() == 1 ? std::optional<int>(found.front()) : std::nullopt;
  };
  GivenEnds ends;
  if (star > 0 && text[star - 1] == ',') ends.first = one(text.substr(0, star - 1));
  if (star + 1 < text.size() && text[star + 1] == ',') ends.last = one(text.substr(star + 2));
  const bool whole = (star == 0 || ends.first) && (star + 1 == text.size() || ends.last);
  return whole && (ends.first || ends.last) ? std::optional<GivenEnds>(ends) : std::nullopt;
}

/// Chunks of a rank have equal parts of its layers (Megatron-LM's decoder_first_pipeline_num_layers).
std::vector<int> layers_between(const RunConfig& config, const GivenEnds& ends, int stages) {
  const int ranks = config.parallel.pipeline;
  const int chunks = std::max(1, stages / ranks);
  const int between = ranks - (ends.first ? 1 : 0) - (ends.last ? 1 : 0);
  const auto rest = static_cast<int>(config.model.layers) - ends.first.value_or(0) - ends.last.value_or(0);
  std::vector<int> of_rank(static_cast<std::size_t>(ranks), between > 0 ? rest / between : 0);
  if (ends.first) of_rank.front() = *ends.first;
  if (ends.last) of_rank.back() = *ends.last;
  const bool equal = between > 0 ? rest >= 0 && rest % between == 0 : rest == 0 && between == 0;
  const bool split =
      std::all_of(of_rank.begin(), of_rank.end(), [&](int each) { return each % chunks == 0; });
  if (!equal || !split) {
    throw InputError(fmt::format(
        "layer_distribution: found {} with the {} layers of {} on {} pipeline ranks of {} chunks, expected "
        "the "
        "other layers in equal parts",
        config.parallel.pp.layer_distribution, config.model.layers, config.model.name, ranks, chunks));
  }
  std::vector<int> layers;
  for (int chunk = 0; chunk < chunks; ++chunk)
    for (const int each : of_rank) layers.push_back(each / chunks);
  return layers;
}

std::vector<int> balanced_layers(const RunConfig& config, int stages) {
  const auto layers = static_cast<int>(config.model.layers);
  if (stages == 1 || config.parallel.splits_vocabulary()) return even_layers(layers, stages);
  const double output = output_layer_in_layers(config);
  const auto longest = [&](int last) {
    const int rest = layers - last;
    const int most = (rest + stages - 2) / (stages - 1);  // of the others
    return std::max<double>(most, last + output);
  };
  int last = layers / stages;
  for (int fewer = last - 1; fewer >= 0; --fewer) {
    if (longest(fewer) < longest(last)) last = fewer;
  }
  std::vector<int> counts = even_layers(layers - last, stages - 1);
  std::reverse(counts.begin(), counts.end());
  counts.push_back(last);
  return counts;
}

}  // namespace

std::vector<int> even_layers(std::int64_t layers, int stages) {
  std::vector<int> counts(static_cast<std::size_t>(stages), static_cast<int>(layers / stages));
  for (std::int64_t i = 0; i < layers % stages; ++i) ++counts[static_cast<std::size_t>(i)];
  return counts;
}

double output_layer_in_layers(const RunConfig& config) {
  const ModelConfig& model = config.model;
  const auto h = static_cast<double>(model.hidden);
  const auto q = static_cast<double>(model.heads * model.head_dim);
  const auto k = static_cast<double>(model.kv_heads * model.head_dim);
  const double up = (is_gated(model.activation) ? 2.0 : 1.0) * static_cast<double>(model.ffn);
  const double matrices = 2 * h * (2 * q + 2 * k + up + static_cast<double>(model.ffn));
  const double attention =
      4 * q * model.mean_keys(config.batch.seq_length, config.batch.prefix_length);  // scores and values
  return 2 * h * static_cast<double>(config.padded_vocab()) / (matrices + attention);
}

std::vector<int> layers_per_stage(const RunConfig& config, int stages) {
  if (config.parallel.pp.layer_distribution == "even") return even_layers(config.model.layers, stages);
  if (config.parallel.pp.layer_distribution == "balanced") return balanced_layers(config, stages);
  if (const CountedEnds* const ends = find_counted(config.parallel.pp.layer_distribution))
    return counted_layers(config, *ends, stages);
  if (const auto ends = find_given(config.parallel.pp.layer_distribution))
    return layers_between(config, *ends, stages);
  std::vector<int> layers = numbers(config.parallel.pp.layer_distribution);
  if (std::ssize(layers) != stages) {
    throw InputError(
        fmt::format("layer_distribution: found {} numbers, expected one for each of the {} stages",
                    layers.size(), stages));
  }
  return layers;
}

int ends_without_layers(const RunConfig& config) {
  if (config.machine.own_step()) return 0;
  if (const CountedEnds* const ends = find_counted(config.parallel.pp.layer_distribution))
    return ends->embedding + ends->loss;
  const std::vector<int> layers = numbers(config.parallel.pp.layer_distribution);
  if (layers.size() < 2) return 0;
  return (layers.front() == 0 ? 1 : 0) + (layers.back() == 0 ? 1 : 0);
}

std::optional<std::string> why_layer_distribution_invalid(const RunConfig& config) {
  const std::string& text = config.parallel.pp.layer_distribution;
  if (text == "even" || text == "balanced" || find_counted(text) != nullptr || find_given(text))
    return std::nullopt;
  const std::vector<int> layers = numbers(text);
  if (layers.empty()) {
    return fmt::format("layer_distribution: found \"{}\", expected {}", printable(text), kExpected);
  }
  // Megatron-LM's first stage may hold the embedding alone (account_for_embedding_in_pipeline_split).
  const std::size_t first = config.machine.own_step() ? 0 : 1;
  for (std::size_t stage = first; stage + 1 < layers.size(); ++stage) {
    if (layers[stage] > 0) continue;
    return fmt::format(
        "layer_distribution: found no layer on stage {} of {}, expected {}", stage, layers.size(),
        first == 0 ? "one at least on every stage but the last" : "one at least between the ends");
  }
  const std::int64_t sum = std::accumulate(layers.begin(), layers.end(), std::int64_t{0});
  if (sum != config.model.layers) {
    return fmt::format("layer_distribution: found {} layers in all, expected the {} of {}", sum,
                       config.model.layers, config.model.name);
  }
  return std::nullopt;
}

}  // namespace plumbline
