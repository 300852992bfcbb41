#include "bench/commands/generate/result_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/show/text/figures.hpp"
#include "bench/training/generate/prompts.hpp"
#include "core/base/byte_text.hpp"
#include "core/base/output_json.hpp"

namespace plumbline {
namespace {

using generation::GeneratedSequence;
using generation::GenerationRequest;
using generation::GenerationResult;

double per_pass(const GenerationResult& result) {
  return result.decode_passes > 0 ? result.decode.value / static_cast<double>(result.decode_passes) : 0;
}

std::int64_t generated_tokens(const GenerationResult& result) {
  std::int64_t sum = 0;
  for (const GeneratedSequence& sequence : result.sequences) sum += std::ssize(sequence.ids);
  return sum;
}

double tokens_per_second(const GenerationResult& result) {
  const double seconds = (result.prefill + result.decode).value;
  return seconds > 0 ? static_cast<double>(generated_tokens(result)) / seconds : 0;
}

}  // namespace

std::string to_json(const GenerationRequest& request, const GenerationResult& result) {
  nlohmann::ordered_json json;
  json["sequences"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < result.sequences.size(); ++i) {
    const GeneratedSequence& sequence = result.sequences[i];
    json["sequences"].push_back({{"prompt_tokens", request.prompts[i].size()},
                                 {"ids", sequence.ids},
                                 {"log_probabilities", sequence.log_probabilities}});
  }
  json["prefill_s"] = result.prefill.value;
  json["decode_s"] = result.decode.value;
  json["decode_passes"] = result.decode_passes;
  json["decode_s_per_pass"] = per_pass(result);
  json["tokens_per_s"] = tokens_per_second(result);
  for (const Bytes& rank : result.cache) json["cache_bytes"].push_back(rank.value);
  return output_json(json, 2) + "\n";
}

std::string to_text(const GenerationResult& result) {
  generation::Prompts ids;
  for (const GeneratedSequence& sequence : result.sequences) ids.push_back(sequence.ids);
  const Bytes cache = *std::max_element(result.cache.begin(), result.cache.end());
  return generation::to_lines(ids) +
         fmt::format("prefill {}, decode {} per pass ({} passes), {:.0f} tokens/s, KV cache {} per rank\n",
                     readable_time(result.prefill.value), readable_time(per_pass(result)),
                     result.decode_passes, tokens_per_second(result), brief_bytes(cache));
}

}  // namespace plumbline
