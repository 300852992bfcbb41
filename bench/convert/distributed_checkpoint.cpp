// Opens a checkpoint of Megatron-Core's torch_dist: tensors of the whole model, each in boxes, independent of
// the ranks that wrote them. Sources: sharded_state_dict of megatron/core/transformer (transformer_block.py,
// mlp.py, moe/experts.py) and dist_checkpointing of NVIDIA/Megatron-LM.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>
#include <utility>

#include "bench/convert/checkpoint.hpp"
#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/text_input.hpp"
#include "core/checkpoints/distributed_metadata.hpp"

namespace plumbline::convert {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLayerPrefix = "decoder.layers.";
constexpr std::string_view kExpertPrefix = "mlp.experts.local_experts.";
constexpr std::size_t kMostConfigurationBytes = std::size_t{1} << 20;
using Sizes = std::vector<std::int64_t>;

/// A name that a tensor of a layer has in such a checkpoint, where it is one of many along the leading axes.
struct StackedName {
  std::string key;
  Sizes at;  // in the leading axes
  Sizes of;  // their sizes
};

/// "12.rest" as 12 and "rest".
std::pair<std::int64_t, std::string> split_number(std::string_view text) {
  std::int64_t number = 0;
  const std::size_t dot = text.find('.');
  std::from_chars(text.data(), text.data() + dot, number);
  return {number, std::string(text.substr(dot + 1))};
}

/// All names that one of "decoder.layers.3.…" may have: with a leading axis of layers and one of experts
/// (Megatron's default), one per layer (layers that are not alike), one per expert.
std::vector<StackedName> stacked_names(const ModelConfig& model, const std::string& name) {
  if (!name.starts_with(kLayerPrefix)) return {{name, {}, {}}};
  const auto [layer, rest] = split_number(std::string_view(name).substr(kLayerPrefix.size()));
  const std::string own = fmt::format("{}{}.", kLayerPrefix, layer);
  std::vector<StackedName> names = {{std::string(kLayerPrefix) + rest, {layer}, {model.layers}},
                                    {own + rest, {}, {}}};
  if (!rest.starts_with(kExpertPrefix)) return names;
  const auto [expert, linear] = split_number(std::string_view(rest).substr(kExpertPrefix.size()));
  const std::string experts = "mlp.experts.experts.";
  names.push_back({fmt::format("{}{}{}", kLayerPrefix, experts, linear),
                   {layer, expert},
                   {model.layers, model.mixture.experts}});
  names.push_back({own + experts + linear, {expert}, {model.mixture.experts}});
  names.push_back({fmt::format("{}{}{}.{}", own, experts, expert, linear), {}, {}});
  return names;
}

class DistributedFolder {
 public:
  DistributedFolder(const std::string& folder, const ModelConfig& model)
      : model_(model), folder_(iteration_folder(folder)) {}

  Checkpoint open() {
    if (const auto reason = why_not_megatron(model_)) throw InputError(*reason);
    checkpoint_.format = CheckpointFormat::distributed;
    read_metadata();
    const MegatronSizes whole;
    const MegatronRank rank{
        {0, model_.layers, true, true}, 0, 0, padded_vocabulary_rows(), VocabularyPadding::zero};
    for (TensorLayout& layout : megatron_layout(model_, whole, rank)) find(layout);
    note_the_rest();
    return std::move(checkpoint_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(fmt::format("{}: {}", printable(folder_.string(), 400), what));
  }

  void read_metadata() {
    const fs::path configuration = folder_ / "metadata.json";
    const fs::path metadata = folder_ / ".metadata";
    std::error_code error;
    if (fs::exists(configuration, error)) {
      const Json json = parse_json_object(read_text_file(configuration.string(), kMostConfigurationBytes),
                                          configuration.string(), 8);
      const auto backend = json.find("sharded_backend");
      if (backend != json.end() && *backend != "torch_dist") {
        throw InputError(fmt::format("{}: sharded_backend: found {}, expected \"torch_dist\"",
                                     printable(configuration.string(), 400), JsonKeys::shown(*backend)));
      }
    }
    if (!fs::exists(metadata, error))
      fail("has metadata.json of a torch_dist checkpoint, but .metadata is missing");
    const MappedFile file(metadata.string());
    tensors_ = read_distributed_metadata(file.bytes(), metadata.string());
    checkpoint_.files.push_back(metadata.string());
  }

  std::int64_t padded_vocabulary_rows() const {
    const auto table = tensors_.find("embedding.word_embeddings.weight");
    const bool is_table = table != tensors_.end() && table->second.shape.size() == 2;
    return is_table ? std::max(table->second.shape.front(), model_.vocab) : model_.vocab;
  }

  const DistributedTensor* tensor(const std::string& key) const {
    const auto found = tensors_.find(key);
    return found == tensors_.end() ? nullptr : &found->second;
  }

  void find(const TensorLayout& layout) {
    std::vector<StackedName> names = stacked_names(model_, layout.name);
    if (!layout.also.empty()) {
      for (StackedName& other : stacked_names(model_, layout.also)) names.push_back(std::move(other));
    }
    for (const StackedName& name : names) {
      if (tensor(name.key) != nullptr) return hold_boxes(name, layout);
      // The gated projection and its gate, as tensors of their own.
      StackedName gate{name.key + "_w", name.at, name.of};
      StackedName up{name.key + "_v", name.at, name.of};
      if (tensor(gate.key) == nullptr || tensor(up.key) == nullptr || layout.rows % 2 != 0) continue;
      hold_boxes(gate, cut_rows(layout, 0, layout.rows / 2));
      return hold_boxes(up, cut_rows(layout, layout.rows / 2, layout.rows / 2));
    }
    std::vector<std::string_view> known;
    known.reserve(tensors_.size());
    for (const auto& [other, held] : tensors_) known.push_back(other);
    fail(fmt::format("tensor \"{}\": missing; the nearest name is \"{}\"", printable(names.front().key, 200),
                     printable(nearest_name(names.front().key, known), 200)));
  }

  /// Holds the boxes' part of the layout's tensor, which is at `name.at` in the leading axes.
  void hold_boxes(const StackedName& name, const TensorLayout& layout) {
    const DistributedTensor& all = *tensor(name.key);
    Sizes expected = name.of;
    for (const std::int64_t size : layout.shape()) expected.push_back(size);
    if (all.shape != expected) {
      fail(fmt::format("tensor {} has shape [{}], expected [{}] by the model", printable(name.key, 200),
                       fmt::join(all.shape, ", "), fmt::join(expected, ", ")));
    }
    if (used_.insert(name.key).second && !covers_whole(all)) {
      fail(fmt::format("tensor {} is not in whole: parts are missing, or lie on each other",
                       printable(name.key, 200)));
    }
    const std::size_t leading = name.at.size();
    for (const DistributedChunk& chunk : all.chunks) {
      std::int64_t index = 0;  // of the leading axes
      bool inside = true;
      for (std::size_t axis = 0; axis < leading; ++axis) {
        const std::int64_t here = name.at[axis] - chunk.offsets[axis];
        inside = inside && here >= 0 && here < chunk.sizes[axis];
        index = index * chunk.sizes[axis] + here;
      }
      if (!inside) continue;
      const std::int64_t rows = chunk.sizes[leading];
      const std::int64_t cols = layout.vector ? 1 : chunk.sizes[leading + 1];
      if (rows == 0 || cols == 0) continue;
      TensorLayout part = cut_rows(layout, chunk.offsets[leading], rows);
      if (!layout.vector) part = cut_cols(part, chunk.offsets[leading + 1], cols);
      StoredTensor stored = bytes_of(chunk, name.key);
      const std::int64_t bytes = rows * cols * size_of(stored.type);
      stored.shape = part.shape();
      stored.bytes =
          stored.bytes.subspan(static_cast<std::size_t>(index * bytes), static_cast<std::size_t>(bytes));
      hold(checkpoint_, stored, std::move(part), (folder_ / chunk.file).string());
    }
  }

  /// The whole box.
  const StoredTensor& bytes_of(const DistributedChunk& chunk, const std::string& key) {
    const auto known = opened_.find(&chunk);
    if (known != opened_.end()) return known->second;
    const std::string path = (folder_ / chunk.file).string();
    const auto refuse = [&](const std::string& what) {
      throw InputError(fmt::format("{}: tensor {} {}", printable(path, 400), printable(key, 200), what));
    };
    const std::span<const std::byte> file = mapped(chunk.file, path);
    if (chunk.begin > file.size() || chunk.length > file.size() - chunk.begin) {
      refuse(fmt::format("has {} bytes from byte {}, the file {}: truncated", chunk.length, chunk.begin,
                         file.size()));
    }
    const StoredTensor stored = TorchArchive(file.subspan(chunk.begin, chunk.length), path).only_tensor();
    if (stored.shape != chunk.sizes) {
      refuse(fmt::format("has a part of shape [{}], expected [{}] by .metadata",
                         fmt::join(stored.shape, ", "), fmt::join(chunk.sizes, ", ")));
    }
    return opened_.emplace(&chunk, stored).first->second;
  }

  std::span<const std::byte> mapped(const std::string& name, const std::string& path) {
    const auto known = files_.find(name);
    if (known != files_.end()) return known->second;
    checkpoint_.files.push_back(path);
    return files_.emplace(name, checkpoint_.mapped.emplace_back(path).bytes()).first->second;
  }

  /// States of the optimizer have its name in front of a parameter's.
  void note_the_rest() {
    for (const auto& [key, tensor] : tensors_) {
      if (used_.contains(key) || key.ends_with("_extra_state")) continue;
      if (key.starts_with("optimizer.") || key.find(".optimizer.") != std::string::npos) {
        checkpoint_.optimizer = true;
      } else {
        checkpoint_.unused.push_back(key);
      }
    }
  }

  const ModelConfig& model_;
  fs::path folder_;
  Checkpoint checkpoint_;
  std::map<std::string, DistributedTensor> tensors_;
  std::set<std::string> used_;
  std::map<const DistributedChunk*, StoredTensor> opened_;
  std::map<std::string, std::span<const std::byte>> files_;
};

}  // namespace

Checkpoint open_distributed(const std::string& folder, const ModelConfig& model) {
  return DistributedFolder(folder, model).open();
}

}  // namespace plumbline::convert
