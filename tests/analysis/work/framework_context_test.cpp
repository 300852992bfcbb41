// Context parallelism in other frameworks' steps.
#include <fmt/format.h>

#include <cmath>

#include "analysis/predict/context_advice.hpp"
#include "tests/analysis/work/framework_runs.hpp"

namespace plumbline::framework_context_test {
namespace {

using namespace frameworks;

/// Bytes of the context group's collectives of a kind.
double context_bytes(const std::vector<OperatorCall>& calls, CallKind kind) {
  double bytes = 0;
  for (const OperatorCall& call : calls) {
    if ((call.among(Group::context) || call.among(Group::context_heads)) && call.is(kind))
      bytes += static_cast<double>((call.bytes() * call.count).value);
  }
  return bytes;
}

// Bytes that a rank sends per layer, with L tokens of a sequence on the rank and k key/value heads of size d:
// 4·L·k·d·(CP-1) forward by ring and gather, twice that backward; exchanged 4·L·(a/TP +
// k)·d·(CP-1)/CP both ways.
TEST(FrameworkContext, EveryRankHasAnEqualPartOfTheWorkAndSendsWhatFormulasSay) {
  RunConfig config = llama("megatron-core");
  config.model = *find_preset("llama-3.1-405b");
  config.parallel.tensor = 8;
  config.parallel.pipeline = 1;
  config.parallel.world_size = 8;
  config.batch = {.seq_length = 131072, .micro_batch_size = 1, .global_batch_size = 8};
  const StageShape whole = first_shape(config);
  const double layers = static_cast<double>(config.model.layers);
  const double forward = flops_of(forward_calls(whole)).value;
  const double backward = flops_of(backward_calls(whole)).value;
  for (const int ranks : {2, 4, 16}) {
    config.parallel.context = ranks;
    config.parallel.world_size = 8 * ranks;
    const double length = 131072.0 / ranks;
    const double kv = 4 * length * 1 * 128 * (ranks - 1);
    for (const CpCommType type : {CpCommType::p2p, CpCommType::all_gather}) {
      config.parallel.cp.comm_type = type;
      const StageShape shape = first_shape(config);
      EXPECT_EQ(shape.sharding.data, ranks);
      const auto there = forward_calls(shape);
      const auto back = backward_calls(shape);
      EXPECT_NEAR(ranks * flops_of(there).value / forward, 1, 1e-9) << ranks;
      EXPECT_NEAR(ranks * flops_of(back).value / backward, 1, 1e-9) << ranks;
      if (type == CpCommType::p2p) {
        EXPECT_EQ(context_bytes(there, CallKind::ring_shift), layers * kv) << ranks;
        EXPECT_EQ(context_bytes(back, CallKind::ring_shift), 2 * layers * kv) << ranks;
      } else {
        const double share = (ranks - 1.0) / ranks;
        EXPECT_DOUBLE_EQ(context_bytes(there, CallKind::all_gather) * share, layers * kv) << ranks;
        EXPECT_DOUBLE_EQ(context_bytes(back, CallKind::all_gather) * share, layers * kv) << ranks;
        EXPECT_DOUBLE_EQ(context_bytes(back, CallKind::reduce_scatter) * share, layers * kv) << ranks;
      }
    }
    EXPECT_TRUE(ranks < 16 || std::abs(kv / 62.9e6 - 1) < 1e-3);  // arithmetic by hand
  }
  config.parallel.cp.comm_type = CpCommType::a2a;
  EXPECT_TRUE(why_invalid(config));  // one key/value head per tensor rank
  config.parallel.tensor = 1;
  config.parallel.context = 4;
  config.parallel.world_size = 4;
  const StageShape exchanged = first_shape(config);
  const double length = 131072.0 / 4;
  for (const auto& calls : {forward_calls(exchanged), backward_calls(exchanged)}) {
    EXPECT_DOUBLE_EQ(context_bytes(calls, CallKind::all_to_all) * 3 / 4,
                     layers * 4 * length * (128 + 8) * 128 * 3 / 4);
  }
  EXPECT_NEAR(4 * flops_of(forward_calls(exchanged)).value / (8 * forward), 1,
              1e-3);  // the padded vocabulary differs
  config.parallel.cp.comm_type = CpCommType::a2a_p2p;
  config.parallel.cp.hierarchical = {2, 2};
  const StageShape both = first_shape(config);
  const double kv = 4 * length * 8 * 128;  // one hop
  for (const bool back : {false, true}) {
    const auto calls = back ? backward_calls(both) : forward_calls(both);
    EXPECT_DOUBLE_EQ(context_bytes(calls, CallKind::all_to_all), layers * 4 * length * (128 + 8) * 128);
    EXPECT_EQ(context_bytes(calls, CallKind::ring_shift), (back ? 2 : 1) * layers * kv);
  }
  EXPECT_NEAR(4 * flops_of(forward_calls(both)).value / (8 * forward), 1, 1e-3);
}

/// Bytes that passes over local tensors move, and collectives that overlap.
struct Passes {
  double merge = 0, gradients = 0, keys = 0, overlapped = 0;
};

Passes passes_of(const std::vector<OperatorCall>& calls) {
  Passes sum;
  for (const OperatorCall& call : calls) {
    const auto* stream = call.as<StreamCall>();
    const double moved =
        stream == nullptr ? 0 : stream->bytes_per_element * double(call.count * stream->elements);
    if (call.name() == "attention merge") sum.merge += moved;
    if (call.name() == "add attention gradients") sum.gradients += moved;
    if (call.name() == "copy keys and values") sum.keys += moved;
    if (call.collective() != nullptr && call.among(Group::context) && call.collective()->ticket > 0)
      sum.overlapped += static_cast<double>(call.count);
  }
  return sum;
}

// PyTorch's ring on 4 ranks: L = 512 tokens, rows of 4096, K and V of 2·4096 as Llama copies them. By hand
// from _attention.py: compiled merges move 8 + 10 + 8 bytes per row element, gradients of K/V 6 + 3·9 + 6,
// of queries 6 + 10 + 10 + 8; eager every operator by itself.
TEST(FrameworkContext, TorchPassesWhatItsSourceSays) {
  struct Case {
    const char* software;
    CpCommType type;
    Recompute granularity;
    double merge, gradients, keys_there, keys_back;  // bytes per row element, or both and K/V's
    double overlapped_there, overlapped_back;
    double received_there, received_back;  // K/V of other ranks
  };
  constexpr double kCompiled = 6 + 10 + 10 + 8, kKeys = 6 + 27 + 6;
  constexpr double kEager = 4 + 4 * 10 + 6, kEagerKeys = 22 + 3 * 21 + 6;
  for (const Case& c : {
           Case{"torchtitan-compile", CpCommType::all_gather, Recompute::none, 26, kCompiled + 2 * kKeys, 4,
                4, 0, 0, 3, 3},
           Case{"torchtitan-compile", CpCommType::all_gather, Recompute::full, 26, kCompiled + 2 * kKeys, 4,
                4, 0, 0, 3, 3},
           Case{"torchtitan-compile", CpCommType::p2p, Recompute::full, 26, kCompiled + 2 * kKeys, 12, 12, 0,
                0, 3, 3},
           Case{"torchtitan", CpCommType::all_gather, Recompute::none, 6 + 3 * 38 + 6,
                kEager + 2 * kEagerKeys, 16, 16, 1, 5, 3, 3},
           Case{"torchtitan", CpCommType::p2p, Recompute::full, 6 + 3 * 38 + 6, kEager + 2 * kEagerKeys, 16,
                32, 3, 10, 3, 6},
       }) {
    RunConfig config = llama(c.software, 1, 1);
    config.parallel.dp.zero_stage = 3;
    config.parallel.context = 4;
    config.parallel.cp.comm_type = c.type;
    config.batch = {.seq_length = 2048, .micro_batch_size = 1, .global_batch_size = 4};
    config.recompute.granularity = c.granularity;
    const StageShape shape = first_shape(config);
    const double layers = static_cast<double>(config.model.layers);
    const double row = layers * 512 * 4096;
    const auto there = forward_calls(shape);
    const auto back = backward_calls(shape);
    const Passes forward = passes_of(there);
    const Passes backward = passes_of(back);
    const std::string label = fmt::format("{} {}", c.software, cp_comm_type_name(c.type));
    EXPECT_EQ(forward.merge, row * c.merge) << label;
    EXPECT_EQ(backward.merge, c.granularity == Recompute::full ? row * c.merge : 0) << label;
    EXPECT_EQ(backward.gradients, row * c.gradients) << label;
    EXPECT_EQ(forward.keys, row * 2 * c.keys_there) << label;
    EXPECT_EQ(backward.keys, row * 2 * c.keys_back) << label;
    EXPECT_EQ(forward.overlapped, layers * c.overlapped_there) << label;
    EXPECT_EQ(backward.overlapped, layers * c.overlapped_back) << label;
    const CallKind kind = c.type == CpCommType::p2p ? CallKind::ring_shift : CallKind::all_gather;
    const double share = c.type == CpCommType::p2p ? 1 : 0.75;
    const double rotated = c.type == CpCommType::p2p ? 4 * 4 : 0;  // gradients of K/V in fp32, 4 times
    EXPECT_EQ(context_bytes(there, kind) * share, row * 2 * 2 * c.received_there) << label;
    EXPECT_EQ(context_bytes(back, kind) * share, row * 2 * (2 * c.received_back + rotated)) << label;
    EXPECT_EQ(context_bytes(back, CallKind::ring_shift),
              row * 2 * (rotated > 0 ? 2 * c.received_back : 0) + row * 2 * 16)
        << label;
  }
}

// Between nodes a gather shows, while a ring travels behind attention.
TEST(FrameworkContext, ARingHidesWhatItsStepsCover) {
  RunConfig config = llama("megatron-core");
  config.machine.hardware = "h100-sxm-80gb";
  config.parallel.tensor = 8;
  config.parallel.pipeline = 1;
  config.parallel.context = 8;
  config.parallel.world_size = 64;
  config.parallel.sequence_parallel = true;
  config.batch = {.seq_length = 131072, .micro_batch_size = 1, .global_batch_size = 1};
  const StepTime ring = predicted(config).time;
  config.parallel.cp.comm_type = CpCommType::all_gather;
  const StepTime gathered = predicted(config).time;
  EXPECT_LT(ring.step.value, gathered.step.value);
  EXPECT_LT(ring.exposed_tensor.value, gathered.exposed_tensor.value);
  const std::string report = context_report(config, schedule_for(config), predicted(config),
                                            *find_hardware_preset(config.machine.hardware));
  EXPECT_THAT(report, testing::HasSubstr(fmt::format("\n  p2p         {:.4g}", ring.step.value)));
  EXPECT_THAT(report, testing::ContainsRegex("all_gather .*this one"));
  EXPECT_THAT(report, testing::HasSubstr("a2a         impossible: cp_comm_type: found a2a with"));
  // A repeated step is predicted with all of its repetitions, for every cp_comm_type.
  config.batch.global_batch_size = 64;
  const HardwareProfile& hardware = *find_hardware_preset(config.machine.hardware);
  const RepeatedSchedule step = step_for(config);
  ASSERT_TRUE(step.repeats());
  const Prediction of_step = predict(config, step, hardware);
  const StepTime whole = [&] {
    RunConfig other = config;
    other.parallel.cp.comm_type = CpCommType::p2p;
    return predicted(other).time;
  }();
  EXPECT_THAT(context_report(config, step, of_step, hardware),
              testing::HasSubstr(fmt::format("\n  p2p         {:.4g}", whole.step.value)));
}

}  // namespace
}  // namespace plumbline::framework_context_test
