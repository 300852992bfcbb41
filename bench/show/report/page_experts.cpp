// The load of experts: a map of layers and experts for every MoE cell, darker for experts that more tokens
// chose.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "bench/show/report/escape.hpp"
#include "bench/show/report/page_parts.hpp"
#include "bench/show/text/record_tables.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kMostLoadMaps = 24;       // of a page
constexpr std::size_t kMostLoadSquares = 4096;  // of a map
constexpr int kExpertSquare = 14;               // of a square, in pixels
constexpr int kLayerNumbers = 40;               // for the layers' numbers
constexpr int kExpertAxis = 16;                 // for the titles of both axes

std::int64_t choices_of(const std::vector<std::int64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
}

/// One layer: a square for every expert, filled by its tokens over the busiest expert's of any layer
/// (`most`), with a bar at its foot for the dropped share.
std::string layer_row(const ExpertLoadReport& layer, int y, std::int64_t most) {
  std::string svg = fmt::format(
      "<text x=\"{}\" y=\"{}\" text-anchor=\"end\" font-size=\"10\" fill=\"currentColor\">{}</text>",
      kLayerNumbers - 6, y + kExpertSquare - 3, layer.layer);
  for (std::size_t i = 0; i < layer.tokens.size(); ++i) {
    const int x = kLayerNumbers + kExpertSquare * static_cast<int>(i);
    const std::int64_t tokens = layer.tokens[i];
    const std::int64_t dropped = layer.dropped[i];
    const double depth = static_cast<double>(tokens) / static_cast<double>(std::max<std::int64_t>(1, most));
    svg += fmt::format(
        "<g><title>layer {}, expert {}: {} tokens, {} dropped</title><rect x=\"{}\" y=\"{}\" width=\"{}\" "
        "height=\"{}\" fill=\"currentColor\" fill-opacity=\"{:.3f}\" stroke=\"currentColor\" "
        "stroke-opacity=\"0.2\"/>",
        layer.layer, i, tokens, dropped, x, y, kExpertSquare - 1, kExpertSquare - 1, 0.04 + 0.8 * depth);
    if (dropped > 0) {
      const double width = (kExpertSquare - 1) * static_cast<double>(dropped) /
                           static_cast<double>(std::max<std::int64_t>(1, tokens));
      svg += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"3\" fill=\"#c0392b\"/>", x,
                         y + kExpertSquare - 4, width);
    }
    svg += "</g>";
  }
  return svg;
}

std::string load_map(const std::vector<ExpertLoadReport>& layers) {
  std::int64_t most = 0;
  std::size_t experts = 0;
  for (const ExpertLoadReport& layer : layers) {
    experts = std::max(experts, layer.tokens.size());
    for (const std::int64_t tokens : layer.tokens) most = std::max(most, tokens);
  }
  if (experts == 0 || experts * layers.size() > kMostLoadSquares) return {};
  const int width = kLayerNumbers + kExpertSquare * static_cast<int>(experts);
  const int height = kExpertAxis + kExpertSquare * static_cast<int>(layers.size());
  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\" aria-label=\"Tokens by layer "
      "and expert\">",
      width, height);
  svg += fmt::format(
      "<text x=\"{}\" y=\"11\" text-anchor=\"end\" font-size=\"10\" fill=\"currentColor\">layer</text><text "
      "x=\"{}\" y=\"11\" font-size=\"10\" fill=\"currentColor\">expert</text>",
      kLayerNumbers - 6, kLayerNumbers);
  int y = kExpertAxis;
  for (const ExpertLoadReport& layer : layers) {
    svg += layer_row(layer, y, most);
    y += kExpertSquare;
  }
  return svg + "</svg>";
}

/// "24576 choices, busiest expert 1.31 times the mean of its layer, 2.10 % dropped".
std::string load_in_words(const std::vector<ExpertLoadReport>& layers) {
  double busiest = 0;
  for (const ExpertLoadReport& layer : layers) {
    const std::int64_t sum = choices_of(layer.tokens);
    if (sum == 0) continue;
    const double mean = static_cast<double>(sum) / static_cast<double>(layer.tokens.size());
    busiest = std::max(
        busiest, static_cast<double>(*std::max_element(layer.tokens.begin(), layer.tokens.end())) / mean);
  }
  const std::int64_t tokens = tokens_of(layers);
  return fmt::format("{} routed tokens, expert load max/mean {:.2f}, {:.2f} % dropped", tokens, busiest,
                     100.0 * static_cast<double>(dropped_of(layers)) /
                         static_cast<double>(std::max<std::int64_t>(1, tokens)));
}

}  // namespace

std::string experts_html(const std::vector<Record>& records) {
  const std::vector<std::string> keys = keys_to_show(records);
  std::string html;
  std::size_t maps = 0;
  for (const Record& record : records) {
    if (!record.measurement || record.measurement->expert_load.empty()) continue;
    if (++maps > kMostLoadMaps) continue;
    const std::vector<ExpertLoadReport>& layers = record.measurement->expert_load;
    html += fmt::format("<figure><figcaption>{}: {}</figcaption>{}</figure>",
                        html_escaped(label_of(record, keys)), load_in_words(layers), load_map(layers));
  }
  if (html.empty()) return {};
  std::string note =
      "<p class=\"note\">Last step, all replicas and micro-batches: one row per MoE layer, one square per "
      "expert, darker with more routed tokens; the red bar is the share of dropped tokens.</p>";
  if (maps > kMostLoadMaps)
    note += fmt::format("<p class=\"note\">The first {} of {} cells.</p>", kMostLoadMaps, maps);
  return note + html;
}

}  // namespace plumbline
