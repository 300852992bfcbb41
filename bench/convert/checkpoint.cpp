#include "bench/convert/checkpoint.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"

namespace plumbline::convert {
namespace {

namespace fs = std::filesystem;

/// True if two blocks of the same rectangle of the model hold the same bytes.
bool same_bytes(const HeldTensor& a, const Block& in_a, const HeldTensor& b, const Block& in_b) {
  if (a.stored.type != b.stored.type || a.layout.transposed != b.layout.transposed) return false;
  const auto size = static_cast<std::size_t>(size_of(a.stored.type));
  const auto place = [&](const HeldTensor& tensor, const Block& block, std::int64_t row) {
    return tensor.stored.bytes.data() +
           static_cast<std::size_t>((block.at_row + row) * tensor.layout.cols + block.at_col) * size;
  };
  // Only whole tensors are stored transposed.
  for (std::int64_t row = 0; row < in_a.rows; ++row) {
    if (std::memcmp(place(a, in_a, row), place(b, in_b, row), static_cast<std::size_t>(in_a.cols) * size) !=
        0)
      return false;
  }
  return true;
}

bool same_place(const Block& a, const Block& b) {
  return a.row == b.row && a.col == b.col && a.rows == b.rows && a.cols == b.cols;
}

}  // namespace

std::string_view name_of(CheckpointFormat format) {
  switch (format) {
    case CheckpointFormat::hugging_face:
      return "hf";
    case CheckpointFormat::megatron:
      return "megatron";
    case CheckpointFormat::distributed:
      return "torch_dist";
  }
  return "";
}

std::optional<CheckpointFormat> find_format(const std::string& folder) {
  const fs::path path(folder);
  std::error_code error;
  if (!fs::is_directory(path, error)) return std::nullopt;
  const auto any_of = [&](const fs::path& in, const std::initializer_list<const char*> names) {
    return std::any_of(names.begin(), names.end(),
                       [&](const char* name) { return fs::exists(in / name, error); });
  };
  if (any_of(path, {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                    "pytorch_model.bin.index.json"}))
    return CheckpointFormat::hugging_face;
  if (any_of(iteration_folder(folder), {".metadata", "metadata.json"})) return CheckpointFormat::distributed;
  if (any_of(path,
             {"latest_checkpointed_iteration.txt", "mp_rank_00", "mp_rank_00_000", "mp_rank_00_000_000"}))
    return CheckpointFormat::megatron;
  return std::nullopt;
}

CheckpointFormat format_of(const std::string& folder) {
  if (const auto found = find_format(folder)) return *found;
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    throw InputError(fmt::format("{}: not a folder; expected a checkpoint of Hugging Face or Megatron",
                                 printable(folder, 400)));
  }
  throw InputError(
      fmt::format("{}: holds neither model.safetensors, pytorch_model.bin or an index of them nor "
                  "latest_checkpointed_iteration.txt or .metadata; expected a checkpoint of Hugging Face or "
                  "Megatron",
                  printable(folder, 400)));
}

Checkpoint open_checkpoint(const std::string& folder, const ModelConfig& model) {
  switch (format_of(folder)) {
    case CheckpointFormat::hugging_face:
      return open_hugging_face(folder, model);
    case CheckpointFormat::megatron:
      return open_megatron(folder, model);
    case CheckpointFormat::distributed:
      return open_distributed(folder, model);
  }
  throw Error("a checkpoint of no format");
}

void hold(Checkpoint& checkpoint, const StoredTensor& stored, TensorLayout layout, const std::string& file) {
  const auto complain = [&](const std::string& what) {
    throw InputError(fmt::format("{}: tensor {} {}", file, printable(layout.name, 200), what));
  };
  if (stored.shape != layout.shape()) {
    complain(fmt::format("has shape [{}], expected [{}] by the model and the ranks",
                         fmt::join(stored.shape, ", "), fmt::join(layout.shape(), ", ")));
  }
  if (const std::string found = stored.no_weights(); !found.empty()) {
    complain(fmt::format("holds {}, expected weights as F32, BF16, F16 or F8_E4M3 with block scales", found));
  }
  checkpoint.dequantized = checkpoint.dequantized || !stored.scales.empty();
  const std::size_t index = checkpoint.tensors.size();
  checkpoint.tensors.push_back({stored, std::move(layout), file});
  const HeldTensor& held = checkpoint.tensors.back();
  for (std::size_t i = 0; i < held.layout.blocks.size(); ++i) {
    const Block& block = held.layout.blocks[i];
    if (block.padding) continue;
    std::vector<HeldBlock>& places = checkpoint.places[block.of];
    bool copy = false;
    for (const HeldBlock& other : places) {
      const Block& first = checkpoint.block(other);
      if (!same_place(first, block)) continue;
      copy = true;
      const HeldTensor& original = checkpoint.tensors[other.tensor];
      if (!same_bytes(original, first, held, block)) {
        throw InputError(fmt::format("{}: tensor {} differs from {} in {}; expected equal copies", file,
                                     printable(held.layout.name, 200), printable(original.layout.name, 200),
                                     original.file));
      }
      break;
    }
    if (!copy) places.push_back({index, i});
  }
}

}  // namespace plumbline::convert
