// Checkpoints: safetensors files in, safetensors files out.
#include "bench/training/weights/weight_files.hpp"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "bench/convert/companions.hpp"
#include "bench/convert/whole_tensors.hpp"
#include "bench/training/parameters/rank_parameters.hpp"
#include "bench/training/weights/adapter_config.hpp"
#include "bench/training/weights/adapter_merge.hpp"
#include "bench/training/weights/checkpoint_check.hpp"
#include "bench/training/weights/weights.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/error.hpp"
#include "core/base/output_folder.hpp"
#include "core/base/text_input.hpp"
#include "core/config/distillation_config.hpp"
#include "core/config/families/checkpoint_config.hpp"
#include "core/config/families/tensor_names.hpp"
#include "core/files/safetensors.hpp"

namespace plumbline::training {
namespace {

constexpr std::size_t kMostConfigBytes = std::size_t{1} << 20;

std::vector<TensorFileWriter::Entry> checkpoint_entries(const RunConfig& config, const StageMap& placement,
                                                        Gathered what) {
  std::vector<TensorFileWriter::Entry> entries;
  std::set<std::string> known;  // GPT-2's c_attn comes in three slices, a split vocabulary in shards
  for (int stage = 0; stage < placement.parts; ++stage) {
    const Layout layout = config.layout();
    for (int expert = 0; expert < layout.expert; ++expert) {
      const StagePart part = part_of(config, placement, stage, layout.holder_of({0, expert, 0}));
      const ParameterLayout parameters = stage_parameters(config, part);
      for (const Parameter& parameter : parameters.list) {
        if (parameter.tied_copy || (what != Gathered::values && !parameters.trains(parameter.unit))) continue;
        for (const Slice& slice : parameter.slices) {
          if (known.insert(slice.tensor).second)
            entries.push_back({slice.tensor, StoredType::fp32, checkpoint_shape(slice)});
        }
      }
    }
  }
  return entries;
}

void save(RankStages& stages, Gathered what, const std::string& file) {
  std::optional<TensorFileWriter> writer;
  if (stages.context().communicator.rank() == 0)
    writer.emplace(file, checkpoint_entries(stages.context().config, stages.placement(), what));
  gather_weights(stages, what, [&](NamedTensor&& whole) {
    writer->write(whole.name, std::as_bytes(std::span(whole.values)));
  });
  if (writer) writer->finish();
}

/// The model with its adapters added.
void save_merged(RankStages& stages, const std::string& file) {
  const RunConfig& config = stages.context().config;
  std::optional<TensorFileWriter> writer;
  if (stages.context().communicator.rank() == 0) {
    std::vector<TensorFileWriter::Entry> entries =
        checkpoint_entries(config, stages.placement(), Gathered::values);
    std::erase_if(entries, [](const auto& entry) { return entry.name.find(".lora_") != std::string::npos; });
    writer.emplace(file, std::move(entries));
  }
  AdapterMerge merge(
      config.finetune.scale(), tensor_names(config.model).transposed,
      [&](NamedTensor&& whole) { writer->write(whole.name, std::as_bytes(std::span(whole.values))); });
  gather_weights(stages, Gathered::values, [&](NamedTensor&& whole) { merge.take(std::move(whole)); });
  merge.finish();
  if (writer) writer->finish();
}

/// The config.json of the model's source: its own, or that of the run's initial weights, if it says the same.
/// Empty: none.
std::filesystem::path source_of(const RunConfig& config) {
  std::error_code error;
  // Ranks are given the model's keys and its name, which is the path that the user wrote.
  const std::filesystem::path named(config.model.name);
  for (const std::filesystem::path& file :
       {std::filesystem::path(config.model.source.file), named, named / "config.json",
        std::filesystem::path(config.files.weights) / "config.json"}) {
    if (!std::filesystem::is_regular_file(file, error)) continue;
    try {
      if (same_model(load_model_config(file.string()), config.model)) return file;
    } catch (const InputError&) {
      continue;  // of another model
    }
  }
  return {};
}

}  // namespace

SavedModel saved_model(const RunConfig& config) {
  const std::filesystem::path source = source_of(config);
  if (source.empty()) return {to_checkpoint_config(config.model), {}};
  return {
      to_checkpoint_config(config.model, read_text_file(source.string(), kMostConfigBytes), source.string()),
      convert::companions_in(source.parent_path().string())};
}

SliceReader checkpoint_weights(const std::string& path, const ModelConfig& model) {
  if (convert::needs_whole_tensors(path)) {
    const auto whole = std::make_shared<convert::WholeTensors>(path, model);
    return
        [whole, path](const Parameter& /*parameter*/, const Slice& slice, float* out, std::int64_t stride) {
          read_slice(whole->get(slice.tensor), path, slice, out, stride);
        };
  }
  const auto file = std::make_shared<TensorFile>(path);
  return [file](const Parameter& /*parameter*/, const Slice& slice, float* out, std::int64_t stride) {
    const StoredTensor& tensor = checkpoint_tensor(*file, slice.tensor, checkpoint_shape(slice));
    read_slice(tensor, file->path(), slice, out, stride);
  };
}

SliceReader initial_weights(const RunConfig& config) {
  const SliceReader fresh = random_weights(config.measure.seed, config.model.init_std);
  const FilesConfig& files = config.files;
  return with_adapters(files.weights.empty() ? fresh : checkpoint_weights(files.weights, config.model),
                       files.lora_weights.empty() ? fresh : adapter_weights(config));
}

void check_outputs(const RunConfig& config) {
  if (!config.files.save_gradients.empty()) check_can_write(config.files.save_gradients, "save_gradients");
  if (!config.files.save_routing.empty()) {
    if (config.model.mixture) check_can_write(config.files.save_routing, "save_routing");
    if (config.distillation.teacher && config.distillation.teacher->mixture)
      check_can_write(teacher_routing_file(config.files.save_routing), "save_routing");
  }
  if (!config.files.save_weights.empty()) check_can_fill(config.files.save_weights, "save_weights");
}

void save_gradients(RankStages& stages, const std::string& file) {
  save(stages, Gathered::gradients, file);
}

void save_weights(RankStages& stages, const std::string& folder) {
  const RunConfig& config = stages.context().config;
  const bool first = stages.context().communicator.rank() == 0;
  const std::filesystem::path place(folder);
  const std::filesystem::path model = config.finetune.lora() ? place / "merged" : place;
  if (first) {
    std::error_code failure;
    std::filesystem::create_directories(model, failure);
    if (failure) {
      throw OutputError(fmt::format("save_weights: found {}, expected a folder that can be made: {}", folder,
                                    failure.message()));
    }
  }
  const std::string file = (model / "model.safetensors").string();
  if (config.finetune.lora()) {
    save(stages, Gathered::trained, (place / "adapter_model.safetensors").string());
    if (first) OutputFolder::named(folder).write("adapter_config.json", adapter_config(config));
    save_merged(stages, file);
  } else {
    save(stages, Gathered::values, file);
  }
  if (!first) return;
  const SavedModel saved = saved_model(config);
  const OutputFolder target = OutputFolder::named(model.string());
  target.write("config.json", saved.config);
  for (const convert::PlannedText& companion : saved.companions) target.write(companion.path, companion.text);
}

}  // namespace plumbline::training
