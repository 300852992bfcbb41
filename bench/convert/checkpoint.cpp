#include "bench/convert/checkpoint.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <filesystem>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"

namespace plumbline::convert {
namespace {

namespace fs = std::filesystem;

/// Whether two blocks of the model's same rectangle hold the same bytes.
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
  return format == CheckpointFormat::megatron ? "megatron" : "hf";
}

CheckpointFormat format_of(const std::string& folder) {
  const fs::path path(folder);
  std::error_code error;
  const auto has = [&](const char* name) { return fs::exists(path / name, error); };
  if (!fs::is_directory(path, error)) {
    throw InputError(fmt::format("{}: not a folder; expected a checkpoint of Hugging Face or Megatron",
                                 printable(folder, 400)));
  }
  if (has("model.safetensors") || has("model.safetensors.index.json") || has("pytorch_model.bin") ||
      has("pytorch_model.bin.index.json")) {
    return CheckpointFormat::hugging_face;
  }
  if (has("latest_checkpointed_iteration.txt") || has("mp_rank_00") || has("mp_rank_00_000") ||
      has("mp_rank_00_000_000")) {
    return CheckpointFormat::megatron;
  }
  if (has("metadata.json") || has(".metadata")) iteration_folder(folder);  // refuses what it is
  throw InputError(
      fmt::format("{}: holds neither model.safetensors, pytorch_model.bin or an index of them nor "
                  "latest_checkpointed_iteration.txt; expected a checkpoint of Hugging Face or Megatron",
                  printable(folder, 400)));
}

Checkpoint open_checkpoint(const std::string& folder, const ModelConfig& model) {
  return format_of(folder) == CheckpointFormat::megatron ? open_megatron(folder, model)
                                                         : open_hugging_face(folder, model);
}

void hold(Checkpoint& checkpoint, const StoredTensor& stored, TensorLayout layout, const std::string& file) {
  const auto complain = [&](const std::string& what) {
    throw InputError(fmt::format("{}: tensor {} {}", file, printable(layout.name, 200), what));
  };
  if (stored.shape != layout.shape()) {
    complain(fmt::format("has shape [{}], expected [{}] by the model and the ranks",
                         fmt::join(stored.shape, ", "), fmt::join(layout.shape(), ", ")));
  }
  if (stored.type == StoredType::int32 || stored.type == StoredType::int64)
    complain(
        fmt::format("holds whole numbers ({}), expected weights as F32, BF16 or F16", name_of(stored.type)));
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
