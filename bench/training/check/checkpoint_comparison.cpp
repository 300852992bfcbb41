#include "bench/training/check/checkpoint_comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>
#include <utility>

#include "bench/convert/named_model.hpp"
#include "bench/training/check/check_tokens.hpp"
#include "bench/training/stage/forward_model.hpp"
#include "bench/training/weights/weights.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"
#include "core/run/solo_communicator.hpp"
#include "kernels/cpu/cpu_operators.hpp"

namespace plumbline::training {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kUsualLength = 64;

/// A side without a config.json has the model of the other.
ModelConfig model_of_side(const CheckRequest& request, std::size_t side) {
  std::error_code error;
  const std::string& own = request.folders[side];
  const bool has_one = fs::exists(fs::path(own) / "config.json", error);
  return convert::model_of(has_one ? own : request.folders[1 - side], request.model).model;
}

RunConfig forward_config(const CheckRequest& request, const ModelConfig& model) {
  RunConfig config;
  config.model = model;
  config.numerics.precision = request.precision;
  config.batch.seq_length = request.seq_length;
  if (request.seq_length == 0)
    config.batch.seq_length =
        model.position.max > 0 ? std::min(kUsualLength, model.position.max) : kUsualLength;
  if (const auto reason = why_invalid(config)) throw InputError(*reason);
  if (const auto reason = why_unsupported(config)) throw InputError(*reason);
  return config;
}

std::vector<std::int32_t> top_tokens(const std::vector<float>& logits) {
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto count = static_cast<std::ptrdiff_t>(std::min(kTopTokens, ids.size()));
  const auto number_at = [&](std::int32_t id) {
    const float logit = logits[static_cast<std::size_t>(id)];
    return std::isnan(logit) ? -std::numeric_limits<float>::infinity() : logit;
  };
  std::partial_sort(ids.begin(), ids.begin() + count, ids.end(), [&](std::int32_t a, std::int32_t b) {
    const float x = number_at(a);
    const float y = number_at(b);
    return x != y ? x > y : a < b;
  });
  ids.resize(static_cast<std::size_t>(count));
  return ids;
}

std::vector<SequenceOutcome> evaluate(const RunConfig& config, const std::string& folder,
                                      const std::vector<std::vector<std::int32_t>>& tokens,
                                      const std::function<void()>& done) {
  Arena arena(Bytes{}, host_memory());
  const auto operators = make_cpu_operators();
  SoloCommunicator communicator;
  ForwardModel model(config, *operators, communicator, arena);
  load_weights(model.resources(), checkpoint_weights(folder, config.model));
  std::vector<SequenceOutcome> outcomes;
  outcomes.reserve(tokens.size());
  for (const std::vector<std::int32_t>& sequence : tokens) {
    const std::span<const std::int32_t> ids(sequence);
    const auto [loss, logits] = model.evaluate(ids.first(ids.size() - 1), ids.subspan(1));
    outcomes.push_back({loss, top_tokens(logits)});
    done();
  }
  return outcomes;
}

}  // namespace

CheckReport check_checkpoints(const CheckRequest& request, const CheckProgress& progress) {
  CheckReport report;
  std::array<RunConfig, 2> configs;
  for (const std::size_t side : {0U, 1U}) {
    report.formats[side] = convert::format_of(request.folders[side]);
    const ModelConfig model = model_of_side(request, side);
    if (const auto reason = convert::why_not_megatron(model)) throw InputError(*reason);
    configs[side] = forward_config(request, model);
  }
  const ModelConfig& model = configs[0].model;
  if (configs[1].model.vocab != model.vocab) {
    throw InputError(fmt::format("{}: a vocabulary of {}, but {} has {}; expected checkpoints of one model",
                                 printable(request.folders[1], 400), configs[1].model.vocab,
                                 printable(request.folders[0], 400), model.vocab));
  }
  report.architecture = model.architecture;
  report.seq_length = std::min(configs[0].batch.seq_length, configs[1].batch.seq_length);
  const auto tokens =
      check_tokens(request.tokens, model.vocab, report.seq_length, request.sequences, request.seed);
  report.sequences.resize(tokens.size());
  int done = 0;
  for (const std::size_t side : {0U, 1U}) {
    configs[side].batch.seq_length = report.seq_length;
    std::vector<SequenceOutcome> outcomes = evaluate(configs[side], request.folders[side], tokens, [&] {
      progress(++done, 2 * static_cast<int>(tokens.size()));
    });
    for (std::size_t i = 0; i < outcomes.size(); ++i)
      report.sequences[i].sides[side] = std::move(outcomes[i]);
  }
  for (CheckedSequence& sequence : report.sequences) {
    const auto& [a, b] = sequence.sides;
    sequence.difference = std::abs(a.loss - b.loss);
    // Also where a loss is not a number.
    sequence.same = sequence.difference <= request.tolerance && a.top == b.top;
    report.different += sequence.same ? 0 : 1;
  }
  return report;
}

}  // namespace plumbline::training
