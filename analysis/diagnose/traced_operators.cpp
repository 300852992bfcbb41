#include "analysis/diagnose/traced_operators.hpp"

#include <algorithm>
#include <charconv>

namespace plumbline {
namespace {

/// Lists of sizes: "[2,3][][4]" has three.
std::vector<std::vector<double>> sizes_in(std::string_view shapes) {
  std::vector<std::vector<double>> lists;
  int depth = 0;
  for (std::size_t i = 0; i < shapes.size();) {
    if (shapes[i] == '[' && depth++ == 0) lists.emplace_back();
    if (shapes[i] == ']') --depth;
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(shapes.data() + i, shapes.data() + shapes.size(), value);
    if (error == std::errc() && !lists.empty() && value >= 0) {
      lists.back().push_back(static_cast<double>(value));
      i = static_cast<std::size_t>(end - shapes.data());
    } else {
      ++i;
    }
  }
  return lists;
}

}  // namespace

double product_flops(std::string_view name, std::string_view shapes) {
  const std::vector<std::vector<double>> sizes = sizes_in(shapes);
  const auto product_of = [&](std::size_t a, std::size_t b) {
    if (sizes.size() <= b || sizes[a].size() < 2 || sizes[b].size() < 2) return 0.0;
    double flops = 2;
    for (const double size : sizes[a]) flops *= size;
    return flops * sizes[b].back();
  };
  if (name == "aten::mm" || name == "aten::bmm" || name == "aten::_scaled_mm") return product_of(0, 1);
  if (name == "aten::addmm" || name == "aten::baddbmm" || name == "aten::_addmm_activation")
    return product_of(1, 2);
  if (name == "aten::linear" && sizes.size() > 1 && sizes[0].size() > 1 && sizes[1].size() == 2) {
    double flops = 2;
    for (const double size : sizes[0]) flops *= size;
    return flops * sizes[1].front();
  }
  return 0;
}

void TracedOperators::add(std::string_view name, std::string_view shapes, TimeShare share, double seconds,
                          double flops, double bytes, int group_size, std::int64_t calls) {
  TracedOperator& time = times_[{std::string(name), std::string(shapes)}];
  if (time.count == 0 && time.seconds == 0) {
    time.name = name;
    time.shapes = shapes;
    time.share = share;
    time.group_size = group_size;
  }
  time.count += calls;
  time.seconds += seconds;
  time.flops += flops;
  time.bytes += bytes;
}

std::vector<TracedOperator> TracedOperators::longest(std::size_t most) const {
  std::vector<TracedOperator> all;
  all.reserve(times_.size());
  for (const auto& [key, time] : times_) all.push_back(time);
  std::stable_sort(all.begin(), all.end(),
                   [](const TracedOperator& a, const TracedOperator& b) { return a.seconds > b.seconds; });
  if (all.size() > most) all.resize(most);
  return all;
}

std::string short_kernel_name(std::string_view name) {
  constexpr std::size_t kLongest = 80;
  if (name.starts_with("void ")) name.remove_prefix(std::string_view("void ").size());
  std::string plain;
  int depth = 0;
  for (const char c : name) {
    if (c == '<') ++depth;
    if (c == '(' && depth == 0 && !plain.empty() && plain.back() != ':') break;
    if (depth == 0 && plain.size() < kLongest) plain += c;
    if (c == '>' && depth > 0) --depth;
  }
  constexpr std::string_view kHidden = "(anonymous namespace)::";
  for (std::size_t at = plain.find(kHidden); at != plain.npos; at = plain.find(kHidden))
    plain.erase(at, kHidden.size());
  while (plain.ends_with(' ')) plain.pop_back();
  return plain;
}

}  // namespace plumbline
