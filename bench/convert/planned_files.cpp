#include "bench/convert/planned_files.hpp"

#include <fmt/format.h>

#include <utility>

#include "bench/convert/hugging_face_layout.hpp"
#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/output_json.hpp"

namespace plumbline::convert {
namespace {

PlannedFile plan_rank(const ModelConfig& model, const MegatronTarget& target, const Checkpoint& source,
                      int tensor, int pipeline, int expert) {
  const MegatronSizes& sizes = target.sizes;
  PlannedFile file;
  file.path = fmt::format("iter_0000001/{}/model_optim_rng.pt", rank_folder(sizes, tensor, pipeline, expert));
  file.torch = true;
  for (int chunk = 0; chunk < sizes.virtual_chunks; ++chunk) {
    PlannedDictionary dictionary;
    dictionary.key = sizes.virtual_chunks > 1 ? fmt::format("model{}", chunk) : "model";
    const MegatronRank rank{even_chunk(model, sizes, pipeline, chunk),
                            tensor,
                            expert,
                            padded_vocabulary(model.vocab, target.vocabulary_multiple, sizes.tensor),
                            target.padding,
                            target.grouped_experts};
    const std::vector<TensorLayout> layouts = megatron_layout(model, sizes, rank);
    dictionary.tensors.reserve(layouts.size());
    for (const TensorLayout& layout : layouts) dictionary.tensors.push_back(plan_tensor(layout, source));
    file.dictionaries.push_back(std::move(dictionary));
  }
  return file;
}

std::string index_of(const std::vector<PlannedFile>& files) {
  Json map = Json::object();
  std::int64_t total = 0;
  for (const PlannedFile& file : files) {
    total += file.bytes();
    for (const PlannedTensor& tensor : file.dictionaries.front().tensors) map[tensor.name] = file.path;
  }
  const Json index = {{"metadata", {{"total_size", total}}}, {"weight_map", std::move(map)}};
  return output_json(index, 2) + "\n";
}

}  // namespace

std::int64_t PlannedFile::bytes() const {
  std::int64_t sum = 0;
  for (const PlannedDictionary& dictionary : dictionaries) {
    for (const PlannedTensor& tensor : dictionary.tensors) sum += tensor.bytes();
  }
  return sum;
}

FilePlan plan_megatron(const ModelConfig& model, const MegatronTarget& target, const Checkpoint& source) {
  const MegatronSizes& sizes = target.sizes;
  if (auto reason = why_not_megatron(model)) throw InputError(*reason);
  if (auto reason = why_not_split(model, sizes)) throw InputError(*reason);
  if (auto reason = why_not_even(model, sizes)) throw InputError(*reason);
  FilePlan plan;
  for (int tensor = 0; tensor < sizes.tensor; ++tensor) {
    for (int pipeline = 0; pipeline < sizes.pipeline; ++pipeline) {
      for (int expert = 0; expert < sizes.expert; ++expert)
        plan.files.push_back(plan_rank(model, target, source, tensor, pipeline, expert));
    }
  }
  plan.texts.push_back({"latest_checkpointed_iteration.txt", "1"});
  return plan;
}

FilePlan plan_hugging_face(const ModelConfig& model, const Checkpoint& source, std::int64_t shard_bytes) {
  FilePlan plan;
  std::int64_t held = 0;
  for (const TensorLayout& layout : hugging_face_layout(model)) {
    PlannedTensor tensor = plan_tensor(layout, source);
    if (plan.files.empty() || held + tensor.bytes() > shard_bytes) {
      plan.files.push_back({"", false, {{"", {}}}});
      held = 0;
    }
    held += tensor.bytes();
    plan.files.back().dictionaries.front().tensors.push_back(std::move(tensor));
  }
  if (plan.files.size() == 1) {
    plan.files.front().path = "model.safetensors";
    return plan;
  }
  for (std::size_t i = 0; i < plan.files.size(); ++i)
    plan.files[i].path = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, plan.files.size());
  plan.texts.push_back({"model.safetensors.index.json", index_of(plan.files)});
  return plan;
}

}  // namespace plumbline::convert
