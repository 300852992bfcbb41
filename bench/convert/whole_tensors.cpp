#include "bench/convert/whole_tensors.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "bench/convert/hugging_face_layout.hpp"
#include "bench/convert/pieces.hpp"
#include "core/base/error.hpp"
#include "core/base/one_line.hpp"

namespace plumbline::convert {

bool needs_whole_tensors(const std::string& path) {
  const std::filesystem::path folder(path);
  std::error_code error;
  const auto has = [&](const char* name) { return std::filesystem::exists(folder / name, error); };
  if (has("model.safetensors") || has("model.safetensors.index.json")) return false;
  return find_format(path).has_value();
}

WholeTensors::WholeTensors(const std::string& folder, const ModelConfig& model) {
  if (const auto reason = why_not_megatron(model)) {
    throw InputError(fmt::format("{}: {}, or weights as safetensors", printable(folder, 400), *reason));
  }
  checkpoint_ = open_checkpoint(folder, model);
  for (TensorLayout& layout : hugging_face_layout(model)) {
    const std::string name = layout.name;
    layouts_.emplace(name, std::move(layout));
  }
}

const StoredTensor& WholeTensors::get(const std::string& name) {
  if (name == name_) return tensor_;
  const auto found = layouts_.find(name);
  if (found == layouts_.end()) throw Error(fmt::format("no tensor {} in the layout of the model", name));
  const PlannedTensor planned = plan_tensor(found->second, checkpoint_);
  bytes_.clear();
  bytes_.reserve(static_cast<std::size_t>(planned.bytes()));
  stream_tensor(planned, [&](std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  });
  name_ = name;
  tensor_ = {planned.type, planned.shape, bytes_};
  return tensor_;
}

}  // namespace plumbline::convert
