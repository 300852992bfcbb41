#include "analysis/silicon/measured_products.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "analysis/silicon/embedded.hpp"
#include "analysis/silicon/measured_table.hpp"

namespace plumbline::silicon {

const TimeGrid& MeasuredProducts::grid() const {
  std::call_once(read_, [this] {
    constexpr Spacing kLog = Spacing::logarithmic;
    const std::string file = fmt::format("products_bf16_{}.csv", accelerator_);
    const auto tables = parse_measured_tables(embedded_text(silicon_files(), file), file);
    grid_ = grid_of(tables.at("burst"), {}, {{"n", kLog}, {"k", kLog}}, kLog);
  });
  return *grid_;
}

double MeasuredProducts::seconds(double m, double n, double k) const {
  const TimeGrid& times = grid();
  if (m > times.axes()[2].values.back() && n < m) std::swap(m, n);  // the same product the other way round
  const std::array<double, 3> size = {n, k, m};
  const auto found = times.at(size);
  double seconds = found->seconds;
  for (std::size_t d = 0; d < size.size(); ++d) seconds *= std::max(size[d] / found->at[d], 1.0);
  return seconds;
}

double MeasuredProducts::adding_seconds(double m, double n, double k) const {
  constexpr double kShareOfFp32Result = 0.93;
  return seconds(m, n, k) / kShareOfFp32Result;
}

}  // namespace plumbline::silicon
