#include "core/launch_files/megatron/megatron_layout.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace plumbline {
namespace {

constexpr std::int64_t kMostStages = 10'000;
constexpr std::size_t kLongestLayout = 10'000;
constexpr const char* kLayoutExpected =
    "a layout such as Et*3|(tt|)*29m|L: E in the first stage, L in the last, t for a layer";
/// Layers of a layout by name, as Megatron-Core's LayerType has them.
constexpr std::pair<std::string_view, char> kLayerNames[] = {
    {"embedding", 'E'}, {"decoder", 't'}, {"mtp", 'm'}, {"loss", 'L'}};

/// A layout in letters, whose stages may be a list of names each: [[embedding, decoder], [decoder, loss]].
std::string in_letters(const std::vector<std::string>& written) {
  const std::string joined = fmt::format("{}", fmt::join(written, "|"));
  std::string_view left = joined;
  std::string letters;
  while (!left.empty()) {
    const auto* const name = std::find_if(std::begin(kLayerNames), std::end(kLayerNames),
                                          [&](const auto& each) { return left.starts_with(each.first); });
    const bool named = name != std::end(kLayerNames);
    letters += named ? name->second : left.front();
    left.remove_prefix(named ? name->first.size() : 1);
  }
  return letters;
}

/// A layout without its repetitions: "Ettt|tt|L". Nothing when it is not one.
class LayoutText {
 public:
  explicit LayoutText(std::string_view text) : text_(text) {}
  std::optional<std::string> flat() {
    std::string all;
    if (!sequence(all, 0) || at_ != text_.size()) return std::nullopt;
    return all;
  }

 private:
  bool sequence(std::string& all, int depth) {
    while (at_ < text_.size() && text_[at_] != ')') {
      std::string piece;
      if (text_[at_] == '(') {
        ++at_;
        if (depth > 10 || !sequence(piece, depth + 1) || at_ >= text_.size()) return false;
        ++at_;
      } else {
        piece = text_[at_++];
      }
      std::int64_t times = 1;
      if (at_ < text_.size() && text_[at_] == '*') {
        const auto [end, error] = std::from_chars(text_.data() + at_ + 1, text_.data() + text_.size(), times);
        if (error != std::errc() || times < 0) return false;
        at_ = static_cast<std::size_t>(end - text_.data());
      }
      for (std::int64_t i = 0; i < times && !piece.empty(); ++i) {
        all += piece;
        if (all.size() > kLongestLayout) return false;
      }
    }
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

/// Layers of every stage of a layout.
std::vector<std::int64_t> stages_of(const LaunchArguments& from, const std::string& written) {
  const char* const flag = "--pipeline-model-parallel-layout";
  std::string plain;
  for (const char c : written)
    if (c != ' ' && c != ',') plain += c;
  const std::optional<std::string> flat = LayoutText(plain).flat();
  if (!flat) from.refuse(flag, kLayoutExpected);
  std::vector<std::int64_t> layers{0};
  std::vector<std::string> stages{""};
  for (const char c : *flat) {
    if (c == '|') {
      layers.push_back(0);
      stages.emplace_back();
    } else {
      if (c == 't') ++layers.back();
      stages.back() += c;
    }
  }
  for (std::size_t i = 0; i < stages.size(); ++i) {
    for (const char c : stages[i]) {
      const bool fits =
          c == 't' || (c == 'E' && i == 0) || ((c == 'L' || c == 'm') && i + 1 == stages.size());
      if (!fits) from.refuse(flag, kLayoutExpected);
    }
  }
  return layers;
}

void set_chunks(LaunchArguments& arguments, std::int64_t chunks, const std::string& from) {
  if (chunks <= 1) return;
  arguments.set("virtual_pipeline_chunks", fmt::format("{}", chunks), from);
  arguments.set("pipeline_schedule", "interleaved", from);
}

/// Micro-batches of a chunk in a row: as many as ranks in the predicted schedule.
void check_group(LaunchArguments& arguments, std::int64_t ranks) {
  const char* const group = "--microbatch-group-size-per-virtual-pipeline-stage";
  if (!arguments.has(group)) return;
  if (arguments.sets("virtual_pipeline_chunks") && arguments.integer(group, ranks) != ranks) {
    arguments.not_modelled(group, fmt::format("expected the {} ranks of the pipeline", ranks));
  } else {
    arguments.without_effect(group, "it is at its default, or chunks are not interleaved");
  }
}

void set_stages(LaunchArguments& arguments, std::int64_t ranks) {
  const std::int64_t layers = arguments.integer("--num-layers", arguments.integer("--encoder-num-layers", 0));
  const char* const layout = "--pipeline-model-parallel-layout";
  const LaunchArgument* const written = arguments.find(layout);
  const std::string letters = written == nullptr ? "None" : in_letters(written->values);
  if (letters != "None") {
    const std::vector<std::int64_t> stages = stages_of(arguments, letters);
    const auto count = static_cast<std::int64_t>(stages.size());
    if (count % ranks != 0) arguments.refuse(layout, fmt::format("stages in a multiple of {} ranks", ranks));
    arguments.set("layer_distribution", fmt::format("{}", fmt::join(stages, ",")), layout);
    return set_chunks(arguments, count / ranks, layout);
  }
  const char* const first = "--decoder-first-pipeline-num-layers";
  const char* const last = "--decoder-last-pipeline-num-layers";
  const bool embedding = arguments.on("--account-for-embedding-in-pipeline-split");
  const bool loss = arguments.on("--account-for-loss-in-pipeline-split");
  const std::int64_t padded = layers + (embedding ? 1 : 0) + (loss ? 1 : 0);
  const bool known = layers > 0;  // else those of a model that the user names
  const char* const per_chunk = "--num-layers-per-virtual-pipeline-stage";
  const char* const chunk_count = "--num-virtual-stages-per-pipeline-rank";
  std::int64_t chunks = 1;
  std::string chunks_from;
  if (const std::int64_t each = arguments.integer(per_chunk, 0); each > 0) {
    const bool ends = arguments.has(first) || arguments.has(last);
    if (!known)
      arguments.refuse(per_chunk, "--num-virtual-stages-per-pipeline-rank, as the file has no --num-layers");
    if (ends || padded % (ranks * each) != 0)
      arguments.refuse(per_chunk, fmt::format("a divisor of the {} layers of a rank", padded / ranks));
    chunks = padded / (ranks * each);
    chunks_from = per_chunk;
  } else if (arguments.has(chunk_count)) {
    chunks = arguments.integer(chunk_count, 1);
    chunks_from = chunk_count;
  }
  if (chunks < 1 || chunks > kMostStages / ranks)
    arguments.refuse(chunks_from, fmt::format("chunks of at most {} stages", kMostStages));
  if (ranks == 1 && chunks > 1)
    arguments.refuse(chunks_from, "a --pipeline-model-parallel-size above 1 with virtual stages");
  if (ranks == 1) return;
  set_chunks(arguments, chunks, chunks_from);
  if (!embedding && !loss && !arguments.has(first) && !arguments.has(last)) {
    if (!known) return;
    if (layers % ranks != 0)
      arguments.refuse("--num-layers",
                       fmt::format("a multiple of the {} ranks of --pipeline-model-parallel-size", ranks));
    // get_num_layers_to_build (NVIDIA/Megatron-LM@2a75ac12 megatron/core/transformer/transformer_block.py).
    if (layers / ranks % chunks != 0)
      arguments.refuse(chunks_from, fmt::format("a divisor of the {} layers of a rank, or "
                                                "--pipeline-model-parallel-layout",
                                                layers / ranks));
    return;
  }
  // Ranks between the ends share the rest evenly, and every rank's chunks its layers.
  const std::string from = arguments.has(first)  ? first
                           : arguments.has(last) ? last
                           : embedding           ? "--account-for-embedding-in-pipeline-split"
                                                 : "--account-for-loss-in-pipeline-split";
  if (embedding || loss) {
    if (known && padded % (ranks * chunks) != 0)
      arguments.refuse(from, fmt::format("{} layers in equal parts for {} stages", padded, ranks * chunks));
    return arguments.set("layer_distribution",
                         !loss        ? "embedding"
                         : !embedding ? "loss"
                                      : "embedding+loss",
                         from);
  }
  std::vector<std::int64_t> stages;
  const std::int64_t front = arguments.integer(first, -1);
  const std::int64_t back = arguments.integer(last, -1);
  if (!known) {
    const auto end = [](std::int64_t count, const char* form) {
      return count >= 0 ? fmt::format(fmt::runtime(form), count) : std::string();
    };
    return arguments.set("layer_distribution", end(front, "{},") + "*" + end(back, ",{}"), from);
  }
  const std::int64_t between = ranks - (front >= 0 ? 1 : 0) - (back >= 0 ? 1 : 0);
  const std::int64_t rest = layers - std::max<std::int64_t>(front, 0) - std::max<std::int64_t>(back, 0);
  if (rest < 0 || (between > 0 ? rest % between != 0 : rest != 0))
    arguments.refuse(from, fmt::format("the other layers in equal parts for {} ranks", between));
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const bool is_first = rank == 0 && front >= 0;
      const bool is_last = rank == ranks - 1 && back >= 0;
      const std::int64_t share = is_first ? front : is_last ? back : rest / between;
      if (share % chunks != 0) arguments.refuse(from, fmt::format("a multiple of the {} chunks", chunks));
      stages.push_back(share / chunks);
    }
  }
  arguments.set("layer_distribution", fmt::format("{}", fmt::join(stages, ",")), from);
}

}  // namespace

void set_megatron_layout(LaunchArguments& arguments) {
  const char* const size = "--pipeline-model-parallel-size";
  const std::int64_t ranks = arguments.integer(size, 1);
  if (ranks < 1 || ranks > kMostStages) arguments.refuse(size, fmt::format("1 to {}", kMostStages));
  set_stages(arguments, ranks);
  check_group(arguments, ranks);
}

}  // namespace plumbline
