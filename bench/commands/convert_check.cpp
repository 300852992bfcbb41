#include "bench/commands/convert_check.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "core/base/json_keys.hpp"
#include "core/base/one_line.hpp"
#include "core/base/output_json.hpp"

namespace plumbline {
namespace {

std::string sequence_text(std::size_t index, const training::CheckedSequence& sequence) {
  const auto& [a, b] = sequence.sides;
  std::string text = fmt::format("sequence {}: loss {:.6f} and {:.6f}", index, a.loss, b.loss);
  text += sequence.difference == 0 ? ", equal" : fmt::format(", {:.1e} apart", sequence.difference);
  text += fmt::format("; next {}", fmt::join(a.top, " "));
  text += a.top == b.top ? " in both" : fmt::format(" and {}", fmt::join(b.top, " "));
  return text + (sequence.same ? "\n" : ": different\n");
}

/// JSON has no infinity.
OrderedJson number_json(double value) {
  return std::isfinite(value) ? OrderedJson(value) : OrderedJson(nullptr);
}

}  // namespace

std::string check_text(const training::CheckRequest& request, const training::CheckReport& report) {
  std::string text;
  for (std::size_t i = 0; i < report.sequences.size(); ++i) text += sequence_text(i, report.sequences[i]);
  const std::string what =
      fmt::format("{} sequences of {} tokens", report.sequences.size(), report.seq_length);
  if (report.different == 0)
    return text + fmt::format("{}: the same, losses to {:g}\n", what, request.tolerance);
  return text + fmt::format("{}: {} differ, in losses by more than {:g} or in next tokens\n", what,
                            report.different, request.tolerance);
}

std::string check_json(const training::CheckRequest& request, const training::CheckReport& report) {
  OrderedJson sequences = OrderedJson::array();
  for (const training::CheckedSequence& sequence : report.sequences) {
    const auto& [a, b] = sequence.sides;
    sequences.push_back({{"losses", {number_json(a.loss), number_json(b.loss)}},
                         {"difference", number_json(sequence.difference)},
                         {"next_tokens", {a.top, b.top}},
                         {"same", sequence.same}});
  }
  OrderedJson sides = OrderedJson::array();
  for (const std::size_t side : {0U, 1U}) {
    sides.push_back(
        {{"path", printable(request.folders[side], 4000)}, {"format", name_of(report.formats[side])}});
  }
  const OrderedJson json = {{"from", sides[0]},
                            {"to", sides[1]},
                            {"architecture", report.architecture},
                            {"precision", request.precision == DType::bf16 ? "bf16" : "fp32"},
                            {"seq_length", report.seq_length},
                            {"tolerance", request.tolerance},
                            {"sequences", sequences},
                            {"different", report.different},
                            {"same", report.different == 0}};
  return output_json(json, 2) + "\n";
}

}  // namespace plumbline
