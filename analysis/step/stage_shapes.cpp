#include "analysis/step/stage_shapes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/step/common_shape.hpp"
#include "analysis/step/vision_tower.hpp"
#include "core/config/layer_distribution.hpp"

namespace plumbline {

namespace {

DistillationShape distillation_shape(const RunConfig& config, bool joint) {
  DistillationShape shape;
  if (!config.distillation.teacher) return shape;
  shape.on = true;
  shape.joint = joint;
  shape.hidden = config.distillation.cache == DistillationCache::hidden;
  shape.unfused = config.distillation.loss == DistillationLoss::unfused;
  shape.language_model = config.distillation.lm_weight > 0;
  shape.teacher_normed = config.distillation.teacher->norms.output_rows;
  shape.teacher_hidden = config.distillation.teacher->hidden;
  shape.student_hidden = config.model.hidden;
  const bool fp32 = config.distillation.cache_dtype == DistillationCacheDType::fp32;
  shape.cached_size = size_of(fp32 ? DType::fp32 : config.numerics.precision);
  return shape;
}

}  // namespace

namespace {

/// A window with as many pairs of tokens as chunks have, to the nearest token.
std::int64_t window_like_chunk(std::int64_t seq, std::int64_t chunk) {
  const auto s = static_cast<double>(seq);
  return std::llround(s - std::sqrt(s * s - 2 * s * keys_per_chunk(seq, chunk)));
}

/// Keys that a query of that layer of the model sees. A window over the whole sequence counts as none.
std::int64_t window_of(const RunConfig& config, std::int64_t layer) {
  const ModelConfig& model = config.model;
  const std::int64_t seq = config.batch.seq_length;
  if (model.window.size == 0 || model.window.size >= seq) return 0;
  const std::int64_t window = model.window_of(layer);
  return window > 0 && model.predicted.chunked ? window_like_chunk(seq, window) : window;
}

/// Adds a layer to kinds in order: neighbours of one kind stand together; in a hybrid model all of a kind do,
/// wherever they are, since its kinds alternate.
void add_layer(const LayerKind& kind, bool anywhere, std::vector<AlikeLayers>& kinds) {
  auto known = kinds.empty() ? kinds.end() : kinds.end() - 1;
  if (anywhere) known = kinds.begin();
  known = std::find_if(known, kinds.end(), [&](const AlikeLayers& alike) { return alike.kind == kind; });
  if (known == kinds.end()) known = kinds.insert(known, {0, kind});
  ++known->layers;
}

/// Kinds of `count` layers from the model's layer `first` on. Layers without experts count as the stage's
/// first ones, wherever they stand. `before`: layers of the same rank's earlier stages.
std::vector<AlikeLayers> kinds_of(const RunConfig& config, std::int64_t first, std::int64_t count,
                                  std::int64_t before) {
  const ModelConfig& model = config.model;
  const bool hybrid{model.hybrid};
  std::vector<AlikeLayers> kinds;
  const std::int64_t dense = model.mixture ? count - model.mixture_layers(first, count) : 0;
  const NumericsConfig& numerics = config.numerics;
  const bool wide_ends =
      numerics.first_last_layers_bf16 && (numerics.fp8.on() || numerics.fp4_format != Fp4Format::none);
  if (dense == 0 && model.window.size == 0 && !wide_ends && !config.recompute.partial() && !hybrid)
    return kinds;
  for (std::int64_t layer = 0; layer < count; ++layer) {
    const bool without_experts = hybrid ? model.mixture && !model.has_experts(first + layer) : layer < dense;
    const LayerKind kind{.dense = without_experts,
                         .window = window_of(config, first + layer),
                         .wide = wide_ends && numerics.is_wide(first + layer, model.layers),
                         .keeps = config.recompute.keeps(layer, before + layer),
                         .mixer = model.hybrid.mixer(first + layer),
                         .feed_forward = model.hybrid.has_feed_forward(first + layer)};
    add_layer(kind, hybrid, kinds);
  }
  if (kinds.size() == 1 && kinds.front().kind == LayerKind()) kinds.clear();
  return kinds;
}

/// Layers of each stage's rank in earlier stages, from which torchtitan counts its model parts' layers on.
std::vector<std::int64_t> layers_before(const std::vector<int>& layers, const std::vector<int>& ranks) {
  std::vector<std::int64_t> before(layers.size());
  for (std::size_t stage = 0; stage < layers.size(); ++stage)
    for (std::size_t earlier = 0; earlier < stage; ++earlier)
      if (ranks[earlier] == ranks[stage]) before[stage] += layers[earlier];
  return before;
}

/// Layers and ends of the stages of one route; where the neighbours are is left to the caller. `ranks`: that
/// of every stage.
std::vector<StageShape> route_shapes(const RunConfig& config, int stages, const std::vector<int>& ranks,
                                     const Software& software) {
  const std::vector<int> layers = stages == 1 ? std::vector<int>{static_cast<int>(config.model.layers)}
                                              : layers_per_stage(config, stages);
  std::vector<StageShape> shapes(static_cast<std::size_t>(stages), common_shape(config, software));
  const std::vector<std::int64_t> before =
      config.recompute.partial() ? layers_before(layers, ranks) : std::vector<std::int64_t>(layers.size());
  std::int64_t first_layer = 0;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    shapes[i].layers = layers[i];
    shapes[i].kinds = kinds_of(config, first_layer, layers[i], before[i]);
    // The last layer stays: its backward comes next.
    std::int64_t& offloaded = shapes[i].recomputation.offloaded;
    offloaded = std::clamp<std::int64_t>(layers[i] - 1, 0, offloaded);
    first_layer += layers[i];
    shapes[i].place.stage = static_cast<int>(i);
  }
  shapes.front().place.first = true;
  shapes.front().vision = vision_of(config);
  shapes.back().place.last = true;
  shapes.back().ends.prediction_modules = config.model.prediction_modules;
  shapes.back().ends.repeated_module = config.prediction.repeated;
  shapes.back().ends.wide_modules = config.prediction.keep_in_bf16;
  shapes.back().ends.defers_output_gradient = config.parallel.pp.defer_embedding_wgrad_compute;
  shapes.front().place.single = stages == 1;
  return shapes;
}

/// Places the token lookups of MTP modules; `here`: the embedding is on the same rank.
void place_lookups(bool here, StageShape& shape) {
  shape.ends.shared_lookup = shape.own_modules() > 0 && here;
  shape.ends.embedding_copy = shape.own_modules() > 0 && !here && !shape.ends.tied;
}

/// True if the first stage has I and W, as its first backward shows.
bool splits_backward(const Schedule& schedule) {
  for (const Action& action : schedule.actions[static_cast<std::size_t>(schedule.rank_of_stage.front())]) {
    if (action.stage != 0) continue;
    if (action.type == ActionType::backward_input) return true;
    if (action.type == ActionType::backward) return false;
  }
  return false;
}

/// Moves embedding and output layer from the ends to the lowest stage of every rank.
void split_vocabulary(const RunConfig& config, const Schedule& schedule, std::vector<StageShape>& shapes) {
  VocabularyShape common;
  common.split = true;
  common.two_barriers = schedule.vocab != VocabPasses::one_barrier;
  common.split_backward = splits_backward(schedule);
  common.shards = config.parallel.vocab_shards();
  const int first = schedule.rank_of_stage.front();
  const int last = schedule.rank_of_stage.back();
  std::vector<bool> carried(static_cast<std::size_t>(schedule.ranks));
  for (StageShape& shape : shapes) {
    const int rank = schedule.rank_of_stage[static_cast<std::size_t>(shape.place.stage)];
    shape.ends.vocab = shape.ends.outputs = config.padded_vocab() / common.shards;
    shape.ends.shared_output = false;
    shape.vocabulary = common;
    shape.vocabulary.carries = !carried[static_cast<std::size_t>(rank)];
    shape.vocabulary.first_rank = rank == first;
    shape.vocabulary.last_rank = rank == last;
    carried[static_cast<std::size_t>(rank)] = true;
  }
}

}  // namespace

std::vector<StageShape> stage_shapes(const RunConfig& config, int stages) {
  std::vector<int> ranks(static_cast<std::size_t>(stages));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<StageShape> shapes = route_shapes(config, stages, ranks, software_of(config));
  shapes.back().ends.shared_output = config.model.embedding.tied && stages == 1;
  place_lookups(stages == 1, shapes.back());
  return shapes;
}

std::vector<StageShape> stage_shapes(const RunConfig& config, const Schedule& schedule) {
  return stage_shapes(config, schedule, software_of(config));
}

std::vector<StageShape> stage_shapes(const RunConfig& config, const Schedule& schedule,
                                     const Software& software) {
  const int per_route = schedule.stages_per_route();
  std::vector<StageShape> shapes = route_shapes(config, per_route, schedule.rank_of_stage, software);
  shapes.reserve(static_cast<std::size_t>(schedule.stages));
  for (int stage = per_route; stage < schedule.stages; ++stage)
    shapes.push_back(shapes[static_cast<std::size_t>(stage % per_route)]);
  const DistillationShape distillation = distillation_shape(config, schedule.joint_teacher);
  std::vector<bool> has_embedding(static_cast<std::size_t>(schedule.ranks));
  for (int stage = 0; stage < schedule.stages; ++stage) {
    StageShape& shape = shapes[static_cast<std::size_t>(stage)];
    shape.distillation = distillation;
    shape.place.stage = stage;
    shape.place.route = stage / per_route;
    shape.place.previous_here = !shape.place.first && !schedule.crosses_ranks(stage, stage - 1);
    shape.place.next_here = !shape.place.last && !schedule.crosses_ranks(stage, stage + 1);
    if (shape.place.first) {
      const int rank = schedule.rank_of_stage[static_cast<std::size_t>(stage)];
      has_embedding[static_cast<std::size_t>(rank)] = true;
    }
  }
  for (StageShape& shape : shapes) {
    const int rank = schedule.rank_of_stage[static_cast<std::size_t>(shape.place.stage)];
    shape.ends.shared_output =
        shape.place.last && shape.ends.tied && has_embedding[static_cast<std::size_t>(rank)];
    place_lookups(has_embedding[static_cast<std::size_t>(rank)], shape);
  }
  if (config.parallel.splits_vocabulary()) split_vocabulary(config, schedule, shapes);
  return shapes;
}

RunConfig evaluated_teacher(const RunConfig& config) {
  RunConfig teacher = config;
  teacher.model = *config.distillation.teacher;
  teacher.mixture = MixtureConfig();  // no token is dropped, nothing is balanced
  teacher.parallel.ep.shared_expert_overlap = false;
  teacher.parallel.dp.zero_stage = 0;
  teacher.parallel.dp.hpz_partition_size = teacher.parallel.dp.optimizer_instances = 1;
  teacher.parallel.dp.overlap_param_gather.reset();
  teacher.recompute.granularity = Recompute::none;
  teacher.numerics.hidden_dropout = teacher.numerics.attention_dropout = 0;
  teacher.numerics.fp8.format = Fp8Format::none;
  return teacher;
}

std::vector<StageShape> teacher_shapes(const RunConfig& config, const Schedule& schedule) {
  if (!config.distillation.teacher) return {};
  std::vector<StageShape> shapes = stage_shapes(evaluated_teacher(config), schedule);
  for (StageShape& shape : shapes) {
    shape.distillation = distillation_shape(config, schedule.joint_teacher);
  }
  return shapes;
}

}  // namespace plumbline
