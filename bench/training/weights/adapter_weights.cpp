// Adapters that PEFT saved, as a run's first ones.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include "bench/training/weights/adapter_config.hpp"
#include "bench/training/weights/checkpoint_check.hpp"
#include "bench/training/weights/weights.hpp"
#include "core/base/error.hpp"
#include "core/base/one_line.hpp"

namespace plumbline::training {
namespace {

constexpr std::size_t kLongestName = 200;

/// Slices in the same rows read the same A.
void check_shared(const TensorFile& file, const Slice& slice, const Slice& first) {
  if (&slice == &first || slice.local_row != first.local_row) return;
  const StoredTensor& tensor = file.get(slice.tensor);
  const StoredTensor& other = file.get(first.tensor);
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    if (tensor.at(i) == other.at(i)) continue;
    throw InputError(fmt::format(
        "{}: tensor {}: found another A than in {}, expected one A for both with frozen lora; set "
        "frozen canonical_lora",
        file.path(), slice.tensor, first.tensor));
  }
}

void check_tensors(const RunConfig& config, const TensorFile& file) {
  std::set<std::string> used;
  for (const Parameter& parameter : whole_model(config.model, config.finetune).list) {
    if (!is_adapter(parameter)) continue;
    for (const Slice& slice : parameter.slices) {
      checkpoint_tensor(file, slice.tensor, checkpoint_shape(slice));
      used.insert(slice.tensor);
      if (parameter.fill == Fill::uniform) check_shared(file, slice, parameter.slices.front());
    }
  }
  for (const std::string& name : file.names()) {
    if (used.contains(name)) continue;
    throw InputError(fmt::format(
        "{}: tensor {}: found one that the run has no place for, expected A and B of the linear layers in "
        "lora_targets alone; merge the adapters with PEFT's merge_and_unload and give weights",
        file.path(), printable(name, kLongestName)));
  }
}

}  // namespace

SliceReader adapter_weights(const RunConfig& config) {
  check_adapter_config(config);
  const std::filesystem::path folder(config.files.lora_weights);
  const auto file = std::make_shared<TensorFile>((folder / "adapter_model.safetensors").string());
  check_tensors(config, *file);
  return [file](const Parameter& /*parameter*/, const Slice& slice, float* out, std::int64_t stride) {
    const StoredTensor& tensor = checkpoint_tensor(*file, slice.tensor, checkpoint_shape(slice));
    read_slice(tensor, file->path(), slice, out, stride);
  };
}

}  // namespace plumbline::training
