// Opens a Megatron checkpoint: a folder per rank, and which ranks there are.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include "bench/convert/checkpoint.hpp"
#include "core/base/error.hpp"
#include "core/base/text_input.hpp"

namespace plumbline::convert {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTracker = "latest_checkpointed_iteration.txt";
constexpr const char* kRankFile = "model_optim_rng.pt";
constexpr std::string_view kEmbedding = "embedding.word_embeddings.weight";
constexpr std::string_view kLayers = "decoder.layers.";
constexpr int kMostRanks = 1 << 16;
constexpr std::int64_t kMostRows = std::int64_t{1} << 32;

using Tensors = std::map<std::string, StoredTensor>;

int number_in(std::string_view text, int otherwise) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : otherwise;
}

/// The numbers behind "mp_rank_"; empty when it is no folder of a rank.
std::vector<int> rank_numbers(const std::string& name) {
  constexpr std::string_view kPrefix = "mp_rank_";
  std::vector<int> numbers;
  if (!name.starts_with(kPrefix)) return numbers;
  for (std::size_t at = kPrefix.size(); at <= name.size();) {
    const std::size_t end = std::min(name.find('_', at), name.size());
    numbers.push_back(number_in(std::string_view(name).substr(at, end - at), -1));
    at = end + 1;
  }
  const bool in_range =
      std::all_of(numbers.begin(), numbers.end(), [](int n) { return n >= 0 && n < kMostRanks; });
  return in_range && numbers.size() <= 3 ? numbers : std::vector<int>();
}

class MegatronFolder {
 public:
  MegatronFolder(const std::string& folder, const ModelConfig& model)
      : model_(model), folder_(iteration_folder(folder)) {}

  Checkpoint open() {
    if (const auto reason = why_not_megatron(model_)) throw InputError(*reason);
    checkpoint_.format = CheckpointFormat::megatron;
    find_ranks();
    open_ranks();
    find_chunks();
    if (const auto reason = why_not_split(model_, sizes_))
      throw InputError(fmt::format("{}: {}", printable(folder_.string(), 400), *reason));
    for (int pipeline = 0; pipeline < sizes_.pipeline; ++pipeline) {
      for (int tensor = 0; tensor < sizes_.tensor; ++tensor) {
        for (int expert = 0; expert < sizes_.expert; ++expert) hold_rank(tensor, pipeline, expert);
      }
    }
    checkpoint_.sizes = sizes_;
    return std::move(checkpoint_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(fmt::format("{}: {}", printable(folder_.string(), 400), what));
  }

  void find_ranks() {
    std::size_t fields = 0;
    std::vector<int> most(3, 0);
    for (const auto& entry : fs::directory_iterator(folder_)) {
      const std::vector<int> numbers = rank_numbers(entry.path().filename().string());
      if (numbers.empty()) continue;
      if (fields != 0 && numbers.size() != fields)
        fail("folders mp_rank_* of different kinds, expected one kind");
      fields = numbers.size();
      for (std::size_t i = 0; i < numbers.size(); ++i) most[i] = std::max(most[i], numbers[i]);
    }
    if (fields == 0) fail("holds no folder mp_rank_*");
    sizes_ = {most[0] + 1, 1, 1, 1};
    if (fields == 3) sizes_.expert = most[2] + 1;
    if (fields == 2 && model_.mixture && starts_the_model("mp_rank_00_001")) {
      sizes_.expert = most[1] + 1;
    } else if (fields >= 2) {
      sizes_.pipeline = most[1] + 1;
    }
    if (std::int64_t{sizes_.tensor} * sizes_.pipeline * sizes_.expert > kMostRanks)
      fail(fmt::format("more than {} ranks", kMostRanks));
    with_pipeline_ = fields == 3 || (fields == 2 && sizes_.expert == 1);
    with_expert_ = fields == 3 || (fields == 2 && !with_pipeline_);
  }

  /// A second number is that of an expert rank if the folder has the embedding, too.
  bool starts_the_model(const char* rank) const {
    const fs::path path = folder_ / rank / kRankFile;
    std::error_code error;
    if (!fs::exists(path, error)) return false;
    const TorchFile file(path.string());
    const std::vector<std::string> keys = file.keys();
    const bool whole = std::find(keys.begin(), keys.end(), "model") != keys.end();
    return file.tensors(whole ? "model" : "model0").contains(std::string(kEmbedding));
  }

  std::string name_of_rank(int tensor, int pipeline, int expert) const {
    std::string name = fmt::format("mp_rank_{:02}", tensor);
    if (with_pipeline_) name += fmt::format("_{:03}", pipeline);
    if (with_expert_) name += fmt::format("_{:03}", expert);
    return name;
  }
  std::size_t file_of(int tensor, int pipeline, int expert) const {
    const auto rank = std::int64_t{pipeline} * sizes_.tensor + tensor;
    return static_cast<std::size_t>(rank * sizes_.expert + expert);
  }

  void open_ranks() {
    for (int pipeline = 0; pipeline < sizes_.pipeline; ++pipeline) {
      for (int tensor = 0; tensor < sizes_.tensor; ++tensor) {
        for (int expert = 0; expert < sizes_.expert; ++expert) {
          const fs::path path = folder_ / name_of_rank(tensor, pipeline, expert) / kRankFile;
          std::error_code error;
          if (!fs::exists(path, error)) {
            fail(fmt::format("{}/{} is missing, of {} tensor, {} pipeline and {} expert ranks",
                             name_of_rank(tensor, pipeline, expert), kRankFile, sizes_.tensor,
                             sizes_.pipeline, sizes_.expert));
          }
          const std::vector<std::string> keys = checkpoint_.torch_files.emplace_back(path.string()).keys();
          checkpoint_.files.push_back(path.string());
          checkpoint_.optimizer |= std::find(keys.begin(), keys.end(), "optimizer") != keys.end() ||
                                   fs::exists(path.parent_path() / "distrib_optim.pt", error);
        }
      }
    }
  }

  /// The keys of a rank's chunks: "model", or "model0", "model1", ….
  static std::vector<std::string> chunk_keys(const TorchFile& file) {
    const std::vector<std::string> keys = file.keys();
    const auto has = [&](const std::string& key) {
      return std::find(keys.begin(), keys.end(), key) != keys.end();
    };
    if (has("model")) return {"model"};
    std::vector<std::string> found;
    for (int chunk = 0; has(fmt::format("model{}", chunk)); ++chunk)
      found.push_back(fmt::format("model{}", chunk));
    if (found.empty())
      throw InputError(fmt::format("{}: has no \"model\"; expected a checkpoint of Megatron",
                                   printable(file.path(), 400)));
    return found;
  }

  static std::int64_t layers_of(const Tensors& tensors) {
    std::int64_t layers = 0;
    for (const auto& [name, tensor] : tensors) {
      if (!name.starts_with(kLayers)) continue;
      const std::string_view rest = std::string_view(name).substr(kLayers.size());
      layers =
          std::max<std::int64_t>(layers, number_in(rest.substr(0, rest.find('.')), -1) + std::int64_t{1});
    }
    return layers;
  }

  /// Finds the layers of each chunk of each pipeline rank: chunk v of rank p is stage v · pipeline + p.
  void find_chunks() {
    const std::vector<std::string> keys = chunk_keys(checkpoint_.torch_files.front());
    sizes_.virtual_chunks = static_cast<int>(keys.size());
    const int stages = sizes_.pipeline * sizes_.virtual_chunks;
    std::int64_t first = 0;
    chunks_.reserve(static_cast<std::size_t>(stages));
    for (int stage = 0; stage < stages; ++stage) {
      const TorchFile& file = checkpoint_.torch_files[file_of(0, stage % sizes_.pipeline, 0)];
      const std::vector<std::string> here = chunk_keys(file);
      if (here != keys)
        fail(fmt::format("ranks of {} and of {} chunks, expected as many on each", keys.size(), here.size()));
      const Tensors tensors = file.tensors(keys[static_cast<std::size_t>(stage / sizes_.pipeline)]);
      const std::int64_t layers = layers_of(tensors);
      chunks_.push_back({first, layers, stage == 0, stage == stages - 1});
      first += layers;
      if (stage > 0) continue;
      const auto embedding = tensors.find(std::string(kEmbedding));
      if (embedding != tensors.end() && !embedding->second.shape.empty())
        padded_vocab_ = std::min(embedding->second.shape.front(), kMostRows) * sizes_.tensor;
    }
    if (first != model_.layers)
      fail(fmt::format("holds {} layers, expected the {} of the model", first, model_.layers));
    if (padded_vocab_ < model_.vocab) {
      fail(fmt::format(
          "{} has {} rows over {} tensor ranks, expected at least the {} of the model's vocabulary",
          kEmbedding, padded_vocab_, sizes_.tensor, model_.vocab));
    }
  }

  void hold_rank(int tensor, int pipeline, int expert) {
    const TorchFile& file = checkpoint_.torch_files[file_of(tensor, pipeline, expert)];
    const std::vector<std::string> keys = chunk_keys(file);
    if (static_cast<int>(keys.size()) != sizes_.virtual_chunks)
      fail(fmt::format("ranks of {} and of {} chunks, expected as many on each", sizes_.virtual_chunks,
                       keys.size()));
    for (int chunk = 0; chunk < sizes_.virtual_chunks; ++chunk) {
      Tensors tensors = file.tensors(keys[static_cast<std::size_t>(chunk)]);
      const MegatronRank rank{
          chunks_[static_cast<std::size_t>(std::int64_t{chunk} * sizes_.pipeline + pipeline)], tensor, expert,
          padded_vocab_, VocabularyPadding::zero};
      for (TensorLayout& layout : megatron_layout(model_, sizes_, rank)) {
        Tensors::node_type found = tensors.extract(layout.name);
        if (!found && !layout.also.empty()) found = tensors.extract(layout.also);
        if (!found) refuse_missing_from(file, layout.name, tensors);
        hold(checkpoint_, found.mapped(), std::move(layout), file.path());
      }
      for (const auto& [name, unused] : tensors) checkpoint_.unused.push_back(name);
    }
  }

  [[noreturn]] static void refuse_missing_from(const TorchFile& file, const std::string& name,
                                               const Tensors& tensors) {
    std::vector<std::string_view> known;
    known.reserve(tensors.size());
    for (const auto& [other, tensor] : tensors) known.push_back(other);
    throw InputError(fmt::format("{}: tensor \"{}\": missing; the nearest name is \"{}\"",
                                 printable(file.path(), 400), printable(name, 200),
                                 printable(nearest_name(name, known), 200)));
  }

  const ModelConfig& model_;
  fs::path folder_;
  Checkpoint checkpoint_;
  MegatronSizes sizes_;
  bool with_pipeline_ = false;
  bool with_expert_ = false;
  std::vector<MegatronChunk> chunks_;
  std::int64_t padded_vocab_ = 0;
};

}  // namespace

std::string iteration_folder(const std::string& folder) {
  const fs::path path(folder);
  std::error_code error;
  if (!fs::exists(path / kTracker, error)) return folder;
  const fs::path tracker = path / kTracker;
  std::string text = read_text_file(tracker.string(), 100);
  text.erase(
      std::remove_if(text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r' || c == ' '; }),
      text.end());
  const int iteration = number_in(text, -1);
  if (iteration < 0 && text != "release") {
    throw InputError(fmt::format("{}: found \"{}\", expected the number of an iteration or release",
                                 printable(tracker.string(), 400), printable(text)));
  }
  const fs::path found = path / (iteration < 0 ? "release" : fmt::format("iter_{:07}", iteration));
  if (!fs::is_directory(found, error)) {
    throw InputError(fmt::format("{}: names {}, which is missing", printable(tracker.string(), 400),
                                 found.filename().string()));
  }
  return found.string();
}

Checkpoint open_megatron(const std::string& folder, const ModelConfig& model) {
  return MegatronFolder(folder, model).open();
}

}  // namespace plumbline::convert
