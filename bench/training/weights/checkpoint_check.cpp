#include "bench/training/weights/checkpoint_check.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "bench/convert/whole_tensors.hpp"
#include "bench/training/parameters/parameters.hpp"
#include "bench/training/parameters/rank_parameters.hpp"
#include "bench/training/weights/weights.hpp"
#include "core/base/error.hpp"
#include "core/base/one_line.hpp"

namespace plumbline::training {
namespace {

constexpr std::string_view kGptPrefix = "transformer.";
constexpr const char* kOutput = "lm_head.weight";

/// GPT-2 checkpoints are published with and without the "transformer." prefix.
std::string stored_name(const TensorFile& file, const std::string& name) {
  if (file.find(name) != nullptr || !name.starts_with(kGptPrefix)) return name;
  const std::string bare = name.substr(kGptPrefix.size());
  return file.find(bare) == nullptr ? name : bare;
}

bool same_values(const StoredTensor& a, const StoredTensor& b) {
  if (a.shape != b.shape) return false;
  if (a.type == b.type) return std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0;
  for (std::int64_t i = 0; i < a.elements(); ++i) {
    if (a.at(i) != b.at(i)) return false;
  }
  return true;
}

/// Buffers that older versions of transformers saved besides parameters: they follow from the configuration.
bool is_buffer(const std::string& name) {
  return name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".attn.bias") ||
         name.ends_with(".attn.masked_bias");
}

[[noreturn]] void refuse_value(const std::string& path, const Slice& slice, std::int64_t row,
                               std::int64_t col, float value) {
  throw InputError(
      fmt::format("{}: tensor {} holds {} in row {}, column {} (as output x input), expected finite numbers",
                  path, slice.tensor, value, row, col));
}

}  // namespace

void read_slice(const StoredTensor& tensor, const std::string& path, const Slice& slice, float* out,
                std::int64_t stride) {
  for (std::int64_t row = 0; row < slice.rows; ++row) {
    const std::int64_t at_row = slice.row + row;
    for (std::int64_t col = 0; col < slice.cols; ++col) {
      const std::int64_t at_col = slice.col + col;
      const float value = tensor.at(slice.transposed ? at_col * slice.tensor_rows + at_row
                                                     : at_row * slice.tensor_cols + at_col);
      if (!std::isfinite(value)) refuse_value(path, slice, at_row, at_col, value);
      out[row * stride + col] = value;
    }
  }
}

ParameterLayout whole_model(const ModelConfig& model, const FinetuneConfig& finetune) {
  RunConfig alone;
  alone.model = model;
  alone.finetune = finetune;
  StagePart part;
  part.layers = model.layers;
  part.has_embedding = part.has_output = true;
  part.shares_embedding = model.embedding.tied;
  part.modules = model.prediction_modules;
  return stage_parameters(alone, part);
}

const StoredTensor& checkpoint_tensor(const TensorFile& file, const std::string& name,
                                      const std::vector<std::int64_t>& shape) {
  const StoredTensor& tensor = file.get(stored_name(file, name));
  if (tensor.shape != shape) {
    throw InputError(
        fmt::format("{}: tensor {}: found shape [{}], expected [{}] as in the model; change model or weights",
                    file.path(), name, fmt::join(tensor.shape, ", "), fmt::join(shape, ", ")));
  }
  if (const std::string found = tensor.no_weights(); !found.empty()) {
    throw InputError(
        fmt::format("{}: tensor {} holds {}, expected weights as F32, BF16, F16 or F8_E4M3 with block scales",
                    file.path(), name, found));
  }
  return tensor;
}

std::vector<std::string> unused_tensors(const ModelConfig& model, const TensorFile& file) {
  std::set<std::string> used;
  std::string embedding;
  for (const Parameter& parameter : whole_model(model).list) {
    for (const Slice& slice : parameter.slices) {
      checkpoint_tensor(file, slice.tensor, checkpoint_shape(slice));
      used.insert(stored_name(file, slice.tensor));
      if (parameter.role == "embedding.weight") embedding = stored_name(file, slice.tensor);
    }
  }
  const StoredTensor* output = model.embedding.tied ? file.find(kOutput) : nullptr;
  if (output != nullptr) {
    if (!same_values(*output, file.get(embedding))) {
      throw InputError(
          fmt::format("{}: {}: found values other than those of {}, expected equal ones with "
                      "tie_word_embeddings true; set it to false, or remove {}",
                      file.path(), kOutput, embedding, kOutput));
    }
    used.insert(kOutput);
  }
  std::vector<std::string> unused;
  for (const std::string& name : file.names()) {
    if (!used.contains(name) && !is_buffer(name)) unused.push_back(name);
  }
  return unused;
}

std::vector<std::string> unused_tensors(const ModelConfig& model, const std::string& path) {
  if (convert::needs_whole_tensors(path)) return convert::WholeTensors(path, model).unused();
  return unused_tensors(model, TensorFile(path));
}

}  // namespace plumbline::training
