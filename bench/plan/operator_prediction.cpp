#include "bench/plan/operator_prediction.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

#include "analysis/step/stage_shapes.hpp"
#include "analysis/time/operator_time.hpp"
#include "analysis/work/operator_list.hpp"
#include "bench/plan/plan.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

constexpr Bytes kFarApart{std::int64_t{1} << 30};  // beyond any cache

bool is_benched(DType type) {
  return type == DType::fp32 || type == DType::bf16;
}

GemmPass gemm_pass(BenchedPass pass) {
  if (pass == BenchedPass::input_gradient) return GemmPass::input_gradient;
  return pass == BenchedPass::weight_gradient ? GemmPass::weight_gradient : GemmPass::forward;
}

std::optional<BenchedShape> shape_of(const GemmCall& call) {
  if (call.fp8 || call.fp4 || call.block_scaled || call.batch > 1 || call.tokens < 1) return std::nullopt;
  BenchedShape shape;
  switch (call.pass) {
    case GemmPass::forward:
      shape.m = call.tokens, shape.n = call.out, shape.k = call.in;
      break;
    case GemmPass::input_gradient:
      shape.pass = BenchedPass::input_gradient;
      shape.m = call.tokens, shape.n = call.in, shape.k = call.out;
      break;
    case GemmPass::weight_gradient:
      shape.pass = BenchedPass::weight_gradient;
      shape.m = call.out, shape.n = call.in, shape.k = call.tokens;
      break;
  }
  return shape;
}

std::optional<BenchedShape> shape_of(const AttentionCall& call) {
  const bool whole = call.past == 0 && call.keys == 0 && call.prefix == 0 && !call.cached;
  if (!whole || call.dropout || call.unfused || call.fp8 || call.group < 1) return std::nullopt;
  BenchedShape shape;
  shape.kind = BenchedOperator::attention;
  shape.pass = call.backward ? BenchedPass::backward : BenchedPass::forward;
  shape.batch = 1;
  shape.sequence = call.queries;
  shape.heads = call.heads;
  shape.kv_heads = std::max<std::int64_t>(1, call.heads / call.group);
  shape.head = call.head_dim;
  shape.window = call.window;
  return shape;
}

std::optional<BenchedShape> shape_of(const StreamCall& call, std::int64_t rows) {
  const auto known = memory_bound_operators();
  if (std::find(known.begin(), known.end(), call.name) == known.end() || call.elements < 1)
    return std::nullopt;
  BenchedShape shape;
  shape.kind = BenchedOperator::memory_bound;
  shape.name = call.name;
  shape.tokens = call.elements % rows == 0 ? rows : 1;
  shape.width = call.elements / shape.tokens;
  return shape;
}

std::optional<BenchedShape> shape_of(const OperatorCall& call, std::int64_t rows) {
  if (!is_benched(call.type)) return std::nullopt;
  std::optional<BenchedShape> shape;
  if (const auto* gemm = call.as<GemmCall>()) shape = shape_of(*gemm);
  if (const auto* attention = call.as<AttentionCall>()) shape = shape_of(*attention);
  if (const auto* stream = call.as<StreamCall>()) shape = shape_of(*stream, rows);
  if (!shape) return shape;
  shape->type = call.type;
  shape->label = call.label;
  shape->count = call.count;
  return shape;
}

/// One rank's experts of a layer.
std::optional<BenchedShape> experts_of(const RunConfig& config) {
  const Mixture& mixture = config.model.mixture;
  if (!mixture || !is_benched(config.numerics.precision)) return std::nullopt;
  BenchedShape shape;
  shape.kind = BenchedOperator::experts;
  shape.type = config.numerics.precision;
  shape.label = "experts";
  shape.ep = config.parallel.expert;
  shape.tp = config.parallel.effective_expert_tensor();
  shape.tokens = config.batch.micro_batch_size * config.batch.seq_length / config.parallel.context * shape.ep;
  shape.hidden = config.model.expert_width();
  shape.ffn = config.model.ffn;
  shape.choices = mixture.top_k;
  shape.experts = mixture.experts;
  shape.count = config.model.mixture_layers() / config.parallel.pipeline;
  return shape;
}

bool same_call(const BenchedShape& a, const BenchedShape& b) {
  if (a.kind != b.kind || a.pass != b.pass || a.type != b.type || a.name != b.name) return false;
  const auto columns = shape_columns(a.kind);
  return std::all_of(columns.begin(), columns.end(),
                     [&](const ShapeColumn& column) { return a.*column.size == b.*column.size; });
}

/// Adds a call, or its count and label to an equal one.
void merge(std::vector<BenchedShape>& shapes, const BenchedShape& shape) {
  const auto equal = std::find_if(shapes.begin(), shapes.end(),
                                  [&](const BenchedShape& each) { return same_call(each, shape); });
  if (equal == shapes.end()) return shapes.push_back(shape);
  equal->count += shape.count;
  if (equal->label.find(shape.label) == std::string::npos) equal->label += ", " + shape.label;
}

/// The calls that one shape stands for. `bytes`: of its operands.
std::vector<OperatorCall> calls_of_shape(const BenchedShape& s, double bytes) {
  const auto stream = [&](const char* name, std::int64_t elements, double per_element, std::int64_t width) {
    const StreamCall call{
        .name = name, .elements = elements, .bytes_per_element = per_element, .width = width};
    return OperatorCall{.work = call, .type = s.type};
  };
  if (s.kind == BenchedOperator::gemm) {
    GemmCall gemm{.pass = gemm_pass(s.pass), .tokens = s.m, .out = s.n, .in = s.k};
    if (s.pass == BenchedPass::input_gradient) gemm.out = s.k, gemm.in = s.n;
    if (s.pass == BenchedPass::weight_gradient) gemm.tokens = s.k, gemm.out = s.m, gemm.in = s.n;
    return {{.work = gemm, .type = s.type}};
  }
  if (s.kind == BenchedOperator::attention) {
    const AttentionCall attention{.backward = s.pass == BenchedPass::backward,
                                  .queries = s.sequence,
                                  .head_dim = s.head,
                                  .group = s.group(),
                                  .heads = s.heads * s.batch,
                                  .window = s.window};
    return {{.work = attention, .type = s.type}};
  }
  if (s.kind == BenchedOperator::memory_bound) {
    const std::int64_t elements = s.tokens * s.width;
    return {stream(s.name.c_str(), elements, bytes / static_cast<double>(elements), s.width)};
  }
  const std::int64_t each = s.rows_per_expert(), rows = each * s.local_experts(), ffn = s.ffn / s.tp;
  const auto e = static_cast<double>(size_of(s.type));
  const auto products = [&](std::int64_t out, std::int64_t in) {
    const GemmCall gemm{.tokens = each, .out = out, .in = in};
    return OperatorCall{.work = gemm, .type = s.type, .count = s.local_experts()};
  };
  return {stream("embedding_forward", rows * s.hidden, 2 * e, s.hidden),
          products(2 * ffn, s.hidden),
          stream("swiglu_forward", rows * 2 * ffn, 1.5 * e, 0),
          stream("scale_rows", rows * ffn, 2 * e, 0),
          products(s.hidden, ffn),
          stream("combine_rows", rows * s.hidden, 2 * e, s.hidden)};
}

double seconds_of(const std::vector<OperatorCall>& calls, const HardwareProfile& hardware, Bytes apart) {
  Load load;
  load.operands = load.gradients = load.weights_in_backward = {.apart = apart};
  double seconds = 0;
  for (const OperatorCall& call : calls) seconds += time_of(call, hardware, load).value;
  return seconds;
}

}  // namespace

std::vector<BenchedShape> shapes_of(const RunConfig& config, const std::vector<BenchedOperator>& kinds) {
  std::vector<BenchedShape> all;
  for (const StageShape& stage : stage_shapes(config, schedule_for(config))) {
    std::vector<BenchedShape> own;
    for (const auto& calls : {forward_calls(stage), backward_calls(stage)}) {
      for (const OperatorCall& call : calls) {
        if (const auto shape = shape_of(call, stage.stream.tokens)) merge(own, *shape);
      }
    }
    for (const BenchedShape& shape : own) {
      const auto equal = std::find_if(all.begin(), all.end(),
                                      [&](const BenchedShape& each) { return same_call(each, shape); });
      if (equal == all.end()) {
        all.push_back(shape);
      } else {
        equal->count = std::max(equal->count, shape.count);
      }
    }
  }
  if (const auto experts = experts_of(config)) all.push_back(*experts);
  std::vector<BenchedShape> chosen;
  for (const BenchedOperator kind : kinds) {
    std::copy_if(all.begin(), all.end(), std::back_inserter(chosen),
                 [&](const BenchedShape& each) { return each.kind == kind; });
  }
  if (chosen.empty()) {
    throw InputError("--config: found no operator of these kinds in fp32 or bf16, expected one; change KIND");
  }
  return chosen;
}

OperatorPrediction::OperatorPrediction(const HardwareProfile& hardware) : hardware_(hardware) {
  if (const Accelerator* known = hardware.accelerator())
    lookup_ = std::make_unique<silicon::OperatorLookup>(known->name, known->constants);
}

bool OperatorPrediction::look_up(OperatorRow& row) {
  const BenchedShape& s = row.shape;
  const bool tabled = lookup_ && s.type == DType::bf16 && s.pass == BenchedPass::forward &&
                      s.kind != BenchedOperator::memory_bound;
  if (!tabled) return false;
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  const auto time = [&](silicon::Clock clock) {
    if (s.kind == BenchedOperator::gemm)
      return lookup_->product({"bf16", number(s.m), number(s.n), number(s.k)}, clock);
    if (s.kind == BenchedOperator::attention) {
      return lookup_->attention({"bf16", number(s.batch), number(s.sequence), number(s.heads),
                                 number(s.kv_heads), number(s.head), number(s.window)});
    }
    return lookup_->experts({"bf16", number(s.tokens), number(s.hidden), number(s.ffn), number(s.choices),
                             number(s.experts), number(s.tp), number(s.ep), 0});
  };
  const silicon::OperatorTime burst = time(silicon::Clock::burst);
  row.isolated.predicted_s = burst.seconds;
  row.batched.predicted_s = time(silicon::Clock::as_measured).seconds;
  row.basis = name_of(burst.basis);
  return true;
}

void OperatorPrediction::predict(OperatorRow& row) {
  const std::vector<OperatorCall> calls = calls_of_shape(row.shape, row.bytes);
  row.flops = 0;
  for (const OperatorCall& call : calls) row.flops += flops_of(call).value;
  if (look_up(row)) return;
  row.isolated.predicted_s = seconds_of(calls, hardware_, kFarApart);
  row.batched.predicted_s = seconds_of(calls, hardware_, {static_cast<std::int64_t>(row.bytes)});
  const bool measured = std::all_of(calls.begin(), calls.end(),
                                    [&](const OperatorCall& call) { return is_measured(call, hardware_); });
  row.basis = measured ? "measured" : "estimated";
}

}  // namespace plumbline
