// A teacher with the student: memory computed by hand, and step times of the orders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "analysis/memory/memory_model.hpp"
#include "analysis/simulate/simulator.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "schedules/make_schedule.hpp"
#include "schedules/passes.hpp"
#include "tests/analysis/sample_configs.hpp"

namespace plumbline::distillation_test {
namespace {

using enum ActionType;

/// h 8 and h_T 12, T 4, v 32, fp32; a layer for each of two stages.
RunConfig tiny_pair() {
  RunConfig config = sample::tiny_qwen2();
  config.distillation.teacher = config.model;
  ModelConfig& teacher = *config.distillation.teacher;
  teacher.name = "tiny-teacher";
  teacher.hidden = 12;
  teacher.heads = 3;
  teacher.ffn = 20;
  config.parallel.pipeline = 2;
  config.parallel.world_size = 2;
  return config;
}

Schedule made(const std::string& name, int ranks, int microbatches, std::int64_t cached = 0) {
  ScheduleRequest request;
  request.name = name;
  request.ranks = ranks;
  request.microbatches = microbatches;
  request.cached_outputs = cached;
  // bubble-fill with whole backwards, whose memory is abeja's; bench/plan/distillation_plan.cpp makes
  // room for others.
  const auto same = [&](double time) {
    return std::vector<Seconds>(static_cast<std::size_t>(ranks), Seconds{time});
  };
  request.distillation = DistillationTimes{same(1), same(1), same(2)};
  return make_schedule(request);
}

Schedule complete(const std::string& name, const RunConfig& config, std::int64_t cached = 0) {
  const Schedule schedule = made(name, config.parallel.pipeline, config.microbatches(), cached);
  return add_step_end(add_transfers(schedule, TransferOrder::sends_first), {false, true});
}

std::int64_t net(const ActionProfile& profile, Category category) {
  return profile.net[category].value;
}

TEST(DistillationMemory, TeacherForwardByHand) {
  RunConfig config = tiny_pair();
  std::vector<StageShape> stages = teacher_shapes(config, made("abeja", 2, 2));
  // x 192, norms 2·(192 + 16), qkv 4·20·4, attention 192, log-sum-exp 48, x2 192, fc1 640, activation 320;
  // the first stage's y goes into the send buffer.
  const std::int64_t layer = 2 * (192 + 16) + 320 + 192 + 48 + 192 + 640 + 320;
  ActionProfile profile = action_profile(stages[0], teacher_forward);
  EXPECT_EQ(profile.peak[Category::teacher].value, 192 + layer);
  EXPECT_EQ(profile.peak.total().value, 192 + layer);
  EXPECT_EQ(profile.net, MemoryBreakdown{});
  EXPECT_EQ(net(action_profile(stages[1], receive_teacher), Category::teacher), 192);
  profile = action_profile(stages[1], teacher_forward, false);
  EXPECT_EQ(profile.peak.total().value, layer + 192);  // y
  EXPECT_EQ(net(profile, Category::teacher), 4 * 32 * 4 - 192);
  // Loss in TF, when F came first: the outputs are gone at its end.
  EXPECT_EQ(net(action_profile(stages[1], teacher_forward, true), Category::teacher), -192);

  config.distillation.cache = DistillationCache::hidden;
  stages = teacher_shapes(config, made("abeja", 2, 2));
  EXPECT_EQ(net(action_profile(stages[1], teacher_forward, false), Category::teacher), 0);
  config.distillation.cache = DistillationCache::logits;
  config.numerics.precision = DType::bf16;
  config.distillation.cache_dtype = DistillationCacheDType::fp32;
  stages = teacher_shapes(config, made("abeja", 2, 2));
  EXPECT_EQ(net(action_profile(stages[1], teacher_forward, false), Category::teacher), 4 * 32 * 4 - 96);
}

/// Eight rows at four experts of T·k choices.
TEST(DistillationMemory, TeacherWithExpertsByHand) {
  RunConfig config = tiny_pair();
  ModelConfig& teacher = *config.distillation.teacher;
  teacher.layers = 3;
  teacher.mixture = {4, 2, true};
  teacher.mixture.first_dense = 1;
  teacher.mixture.dense_ffn = 10;
  teacher.mixture.expert_bias = true;
  const Schedule schedule = made("abeja", 2, 2);
  std::vector<StageShape> stages = teacher_shapes(config, schedule);
  ASSERT_EQ(stages[0].layers, 2);
  // As above but for fc1 and activation. A layer without experts has 320 and 160. An MoE layer has logits 64,
  // experts and rows of choices 64, tokens and weights of rows 64, fc1 1280, activation 640.
  const std::int64_t attention = 2 * (192 + 16) + 320 + 192 + 48 + 192;
  const std::int64_t routed = attention + 3 * 64 + 1280 + 640;
  const std::int64_t rows = 8 * 12 * 4;  // of products, while y is in the send buffer
  ActionProfile profile = action_profile(stages[0], teacher_forward);
  EXPECT_EQ(profile.peak[Category::teacher].value, 192 + routed);
  EXPECT_EQ(profile.peak.total().value, 192 + routed + rows);
  EXPECT_EQ(profile.net, MemoryBreakdown{});
  // The student's router settings do not apply to a teacher.
  config.model.mixture = {4, 2, true};
  config.mixture.capacity_factor = 0.5;
  config.mixture.aux_loss_coeff = 1;
  config.mixture.load_balancing = LoadBalancing::global_aux_loss;
  EXPECT_EQ(action_profile(teacher_shapes(config, schedule)[0], teacher_forward).peak, profile.peak);
  // Four numbers of its router beside the weights.
  const MemoryPrediction held = predict_memory(config, schedule);
  teacher.mixture.expert_bias = false;
  const MemoryPrediction without = predict_memory(config, schedule);
  for (const std::size_t rank : {0, 1}) {
    EXPECT_EQ(
        held.ranks[rank].held[Category::teacher].value - without.ranks[rank].held[Category::teacher].value,
        4 * 4);
  }
}

TEST(DistillationMemory, LossByHand) {
  RunConfig config = tiny_pair();
  const auto forward_of_last = [&] {
    return action_profile(stage_shapes(config, made("abeja", 2, 2))[1], forward);
  };
  EXPECT_EQ(net(forward_of_last(), Category::teacher), -4 * 32 * 4);
  EXPECT_EQ(net(forward_of_last(), Category::workspace), 0);
  config.distillation.loss = DistillationLoss::unfused;
  EXPECT_EQ(forward_of_last().peak[Category::workspace].value, 7 * 4 * 32 * 4);
  EXPECT_EQ(net(forward_of_last(), Category::teacher), -4 * 32 * 4);
  config.distillation.cache = DistillationCache::hidden;  // the kept stream goes, the logits come and go
  EXPECT_EQ(forward_of_last().peak[Category::teacher].value, 4 * 32 * 4 - 192);
  EXPECT_EQ(net(forward_of_last(), Category::teacher), -192);
}

TEST(DistillationMemory, UnfusedAttentionByHand) {
  RunConfig config = tiny_pair();
  const std::int64_t heads = config.model.heads;
  const std::int64_t d = config.model.head_dim;
  const std::int64_t scores = heads * 4 * 4 * 4;
  const std::int64_t repeated = 2 * 4 * (heads - config.model.kv_heads) * d * 4;
  ASSERT_GT(repeated, 0);
  const auto profile = [&](ActionType type) {
    return action_profile(stage_shapes(config, made("abeja", 2, 2))[0], type);
  };
  const ActionProfile fused_forward = profile(forward);
  const ActionProfile fused_backward = profile(backward);
  config.numerics.attention_backend = AttentionBackend::unfused;
  EXPECT_EQ(net(profile(forward), Category::activations),
            net(fused_forward, Category::activations) + scores + repeated);
  EXPECT_EQ(net(profile(backward), Category::activations),
            net(fused_backward, Category::activations) - scores - repeated);
  EXPECT_EQ(net(profile(forward), Category::workspace), 0);
  EXPECT_EQ(net(profile(backward), Category::workspace), 0);
  // Keys and values, too, of the teacher; none of its layers' memory stays.
  const auto teacher = action_profile(teacher_shapes(config, made("abeja", 2, 2))[0], teacher_forward);
  EXPECT_EQ(teacher.net, MemoryBreakdown{});
}

TEST(DistillationMemory, JointMessagesByHand) {
  const RunConfig config = tiny_pair();
  const Schedule schedule = made("nemo-13065", 2, 2);
  const std::vector<StageShape> students = stage_shapes(config, schedule);
  const std::vector<StageShape> teachers = teacher_shapes(config, schedule);
  constexpr std::int64_t kJoint = 4 * (12 + 8) * 4;
  EXPECT_EQ(net(action_profile(students[1], receive_forward), Category::communication), kJoint);
  EXPECT_EQ(net(action_profile(teachers[0], teacher_forward), Category::teacher), 192);  // y until F's end
  EXPECT_EQ(net(action_profile(students[0], forward), Category::teacher), -192);
  EXPECT_EQ(net(action_profile(teachers[1], teacher_forward, false), Category::teacher), 512);
  EXPECT_EQ(net(action_profile(students[1], forward), Category::communication), -kJoint);
  EXPECT_EQ(net(action_profile(students[0], receive_backward), Category::communication), kJoint);
  EXPECT_EQ(net(action_profile(students[0], backward), Category::communication), -kJoint);
}

TEST(DistillationMemory, HeldByHand) {
  const RunConfig config = tiny_pair();
  // Layer: norms 24, qkv 20·12 + 20, projection 144, fc1 480, fc2 240.
  constexpr std::int64_t kLayer = 24 + 260 + 144 + 480 + 240;
  const auto held = [&](const char* name) { return predict_memory(config, complete(name, config)).ranks; };
  const auto apart = held("abeja");
  EXPECT_EQ(apart[0].held[Category::teacher].value, (kLayer + 32 * 12) * 4);
  EXPECT_EQ(apart[1].held[Category::teacher].value, (kLayer + 12 + 32 * 12) * 4);
  EXPECT_EQ(apart[0].held[Category::communication].value, 4 * 8 * 4 + 4 * 12 * 4);
  EXPECT_EQ(apart[1].held[Category::communication].value, 4 * 8 * 4);
  const auto joint = held("nemo-13065");
  EXPECT_EQ(joint[0].held[Category::communication].value, 4 * 20 * 4);
  EXPECT_EQ(joint[1].held[Category::communication].value, 4 * 20 * 4);
}

TEST(DistillationMemory, WhatIsCachedDecides) {
  RunConfig config = tiny_pair();
  const auto peak = [&](const char* name, int batch, std::int64_t cached = 0) {
    config.batch.global_batch_size = batch;
    const MemoryPrediction memory = predict_memory(config, complete(name, config, cached));
    return memory.ranks[1].peak.total().value;
  };
  constexpr std::int64_t kOutput = 4 * 32 * 4;
  constexpr std::int64_t kTargets = 4 * 4;
  EXPECT_EQ(peak("nemo-2504", 8) - peak("nemo-2504", 4), 4 * (kOutput + kTargets));
  EXPECT_EQ(peak("abeja", 8) - peak("abeja", 4), 4 * kTargets);
  EXPECT_EQ(peak("bubble-fill", 16, 1), peak("abeja", 16));
  for (const std::int64_t cached : {2, 3, 5}) {
    EXPECT_LE(peak("bubble-fill", 16, cached), peak("abeja", 16) + cached * kOutput) << cached;
  }
}

struct Times {
  double teacher, forward, backward;
};

double makespan(const Schedule& schedule, const Times& times, double latency) {
  Costs costs = uniform_costs(
      schedule.stages,
      {.forward = {times.forward}, .backward = {times.backward}, .teacher_forward = {times.teacher}});
  costs.latency = {latency};
  costs.one_send_buffer = true;
  return simulate(add_transfers(schedule, TransferOrder::sends_first), costs).makespan().value;
}

TEST(DistillationTime, FormulasOfTheOrders) {
  constexpr int kMicrobatches = 32;
  for (const int ranks : {2, 4, 8}) {
    for (const Times& t : {Times{1, 1, 2}, Times{3, 1, 2}, Times{0.5, 1, 2}}) {
      SCOPED_TRACE(testing::Message() << ranks << " ranks, teacher " << t.teacher);
      const double work = kMicrobatches * (t.teacher + t.forward + t.backward);
      const double sweep = work + (ranks - 1) * (std::max(t.teacher, t.forward) + t.backward);
      const double joint = work + (ranks - 1) * (t.teacher + t.forward + t.backward);
      EXPECT_NEAR(makespan(made("nemo-2504", ranks, kMicrobatches), t, 0), sweep, 1e-9);
      EXPECT_NEAR(makespan(made("nemo-13065", ranks, kMicrobatches), t, 0), joint, 1e-9);
    }
  }
}

TEST(DistillationTime, FillingBubblesIsAtLeastAsFastAsEveryOther) {
  constexpr int kMicrobatches = 32;
  for (const int ranks : {2, 4, 8}) {
    for (const Times& t : {Times{1, 1, 2}, Times{2, 1, 2}, Times{1, 0.5, 1}}) {
      const auto same = [&](double time) {
        return std::vector<Seconds>(static_cast<std::size_t>(ranks), Seconds{time});
      };
      const Schedule filled = distillation_bubble_fill(ranks, kMicrobatches, 2 * ranks,
                                                       {same(t.teacher), same(t.forward), same(t.backward)});
      for (const double latency : {0.0, 0.02, 0.1}) {
        const double mine = makespan(filled, t, latency);
        for (const char* other : {"nemo-2504", "abeja", "nemo-13065"}) {
          const double theirs = makespan(made(other, ranks, kMicrobatches), t, latency);
          if (latency > 0 && ranks > 2 && std::string(other) != "abeja") {
            EXPECT_LT(mine, theirs) << other << ", " << ranks << " ranks, teacher " << t.teacher;
          }
          EXPECT_LE(mine, theirs + 1e-9)
              << other << ", " << ranks << " ranks, teacher " << t.teacher << ", latency " << latency;
        }
      }
    }
  }
}

}  // namespace
}  // namespace plumbline::distillation_test
