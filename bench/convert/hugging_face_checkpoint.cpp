// Opens a Hugging Face folder: safetensors, or the .bin of torch.save, in one file or in shards.
#include <fmt/format.h>

#include <filesystem>
#include <set>
#include <utility>

#include "bench/convert/checkpoint.hpp"
#include "bench/convert/hugging_face_layout.hpp"
#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/text_input.hpp"
#include "core/config/families/tensor_names.hpp"

namespace plumbline::convert {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostIndexBytes = std::size_t{16} << 20;
constexpr std::string_view kTransformer = "transformer.";  // GPT-2 is published with and without

struct Named {
  StoredTensor stored;
  std::string file;
};
using NamedTensors = std::map<std::string, Named>;

/// The .bin files of the folder: one, or those that the index names.
std::vector<std::string> bin_files(const fs::path& folder) {
  const fs::path single = folder / "pytorch_model.bin";
  const fs::path index = folder / "pytorch_model.bin.index.json";
  std::error_code error;
  if (fs::exists(single, error)) return {single.string()};
  const Json json = parse_json_object(read_text_file(index.string(), kMostIndexBytes), index.string(), 4);
  const auto map = json.find("weight_map");
  if (map == json.end() || !map->is_object())
    throw InputError(fmt::format("{}: weight_map: expected a mapping of tensors to files", index.string()));
  std::set<std::string> names;
  for (const auto& [tensor, shard] : map->items()) {
    const std::string name = shard.is_string() ? shard.get<std::string>() : "";
    if (!name.ends_with(".bin") || name.front() == '.' ||
        name.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos) {
      throw InputError(fmt::format(
          "{}: weight_map: tensor \"{}\": found {}, expected the name of a .bin file in the same folder",
          index.string(), printable(tensor), JsonKeys::shown(shard)));
    }
    names.insert(name);
  }
  std::vector<std::string> files;
  files.reserve(names.size());
  for (const std::string& name : names) files.push_back((folder / name).string());
  return files;
}

void read_safetensors(Checkpoint& checkpoint, const std::string& folder, NamedTensors& tensors) {
  const TensorFile& file = checkpoint.safetensors.emplace_back(folder);
  for (const std::string& name : file.names()) tensors.emplace(name, Named{file.get(name), folder});
  std::error_code error;
  const bool single = fs::exists(fs::path(folder) / "model.safetensors", error);
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (single ? name == "model.safetensors" : name.ends_with(".safetensors"))
      checkpoint.files.push_back(entry.path().string());
  }
}

void read_bins(Checkpoint& checkpoint, const std::string& folder, NamedTensors& tensors) {
  for (const std::string& path : bin_files(folder)) {
    const TorchFile& file = checkpoint.torch_files.emplace_back(path);
    for (auto& [name, stored] : file.tensors("")) {
      if (!tensors.emplace(name, Named{stored, path}).second)
        throw InputError(fmt::format("{}: tensor \"{}\": given by another shard too", path, printable(name)));
    }
    checkpoint.files.push_back(path);
  }
}

/// Buffers that older versions of transformers saved besides parameters: they follow from the configuration.
bool is_saved_buffer(const std::string& name) {
  return name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".attn.bias") ||
         name.ends_with(".attn.masked_bias");
}

NamedTensors::node_type take(NamedTensors& tensors, const std::string& name) {
  if (auto found = tensors.extract(name)) return found;
  return name.starts_with(kTransformer) ? tensors.extract(name.substr(kTransformer.size()))
                                        : NamedTensors::node_type();
}

[[noreturn]] void refuse_missing(const std::string& folder, const std::string& name,
                                 const NamedTensors& tensors) {
  std::vector<std::string_view> known;
  known.reserve(tensors.size());
  for (const auto& [other, tensor] : tensors) known.push_back(other);
  throw InputError(fmt::format("{}: tensor \"{}\": missing; the nearest name is \"{}\"",
                               printable(folder, 400), printable(name, 200),
                               printable(nearest_name(name, known), 200)));
}

}  // namespace

Checkpoint open_hugging_face(const std::string& folder, const ModelConfig& model) {
  Checkpoint checkpoint;
  NamedTensors tensors;
  std::error_code error;
  const fs::path path(folder);
  if (fs::exists(path / "model.safetensors", error) ||
      fs::exists(path / "model.safetensors.index.json", error)) {
    read_safetensors(checkpoint, folder, tensors);
  } else {
    read_bins(checkpoint, folder, tensors);
  }
  for (TensorLayout& layout : hugging_face_layout(model)) {
    const NamedTensors::node_type found = take(tensors, layout.name);
    if (!found) refuse_missing(folder, layout.name, tensors);
    hold(checkpoint, found.mapped().stored, std::move(layout), found.mapped().file);
  }
  const std::string output = fmt::format("{}.weight", tensor_names(model).output);
  if (model.embedding.tied) {
    if (const NamedTensors::node_type copy = tensors.extract(output)) {
      hold(checkpoint, copy.mapped().stored,
           TensorBuilder(output, model.hidden).rows("embedding.weight", 0, model.vocab).done(),
           copy.mapped().file);
    }
  }
  for (const auto& [name, tensor] : tensors) {
    if (!is_saved_buffer(name)) checkpoint.unused.push_back(name);
  }
  return checkpoint;
}

}  // namespace plumbline::convert
