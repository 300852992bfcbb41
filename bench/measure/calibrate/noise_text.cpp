// Samples of noise as CSV and in words.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "bench/measure/calibrate/noise.hpp"
#include "core/base/error.hpp"
#include "core/base/statistics.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

constexpr double kBurst = 1.2;     // times the median
constexpr double kTogether = 0.5;  // correlation
constexpr std::size_t kTimes = 5;  // the first columns are times

std::vector<double> column(const std::vector<NoiseSample>& samples, const NoiseColumn& of) {
  std::vector<double> values;
  for (const NoiseSample& sample : samples) {
    if (std::isfinite(sample.*of.member)) values.push_back(sample.*of.member);
  }
  return values;
}

double quantile(const std::vector<double>& values, double share) {
  return value_at(values, static_cast<std::size_t>(share * static_cast<double>(values.size() - 1)));
}

/// Pearson's; NaN if one of both does not move.
double correlation(const std::vector<NoiseSample>& samples, const NoiseColumn& a, const NoiseColumn& b) {
  double n = 0, x = 0, y = 0, xx = 0, yy = 0, xy = 0;
  for (const NoiseSample& sample : samples) {
    const double u = sample.*a.member;
    const double v = sample.*b.member;
    if (!std::isfinite(u) || !std::isfinite(v)) continue;
    n += 1;
    x += u;
    y += v;
    xx += u * u;
    yy += v * v;
    xy += u * v;
  }
  const double spread = (n * xx - x * x) * (n * yy - y * y);
  return spread > 0 ? (n * xy - x * y) / std::sqrt(spread) : std::nan("");
}

std::string line_of_times(const char* name, const std::vector<double>& values) {
  const double middle = median(values);
  const std::size_t fifth = std::max<std::size_t>(1, values.size() / 5);
  const double first = median({values.begin(), values.begin() + static_cast<std::ptrdiff_t>(fifth)});
  const double last = median({values.end() - static_cast<std::ptrdiff_t>(fifth), values.end()});
  const auto bursts =
      std::count_if(values.begin(), values.end(), [&](double v) { return v > kBurst * middle; });
  return fmt::format(
      "{:<22} median {:9.2f} us, 90 % of the seconds within {:+.1f} to {:+.1f} %, drift {:+.1f} %, {} of {} "
      "seconds above {:.1f} times the median\n",
      name, 1e6 * middle, 100 * (quantile(values, 0.05) / middle - 1),
      100 * (quantile(values, 0.95) / middle - 1), 100 * (last / first - 1), bursts, values.size(), kBurst);
}

}  // namespace

std::string to_csv(const std::vector<NoiseSample>& samples) {
  std::string csv = "second";
  for (const NoiseColumn& each : kNoiseColumns) csv += fmt::format(",{}", each.name);
  csv += '\n';
  for (const NoiseSample& sample : samples) {
    csv += fmt::format("{:.2f}", sample.second);
    for (const NoiseColumn& each : kNoiseColumns) {
      const double value = sample.*each.member;
      csv += std::isfinite(value) ? fmt::format(",{:.6g}", value) : ",";
    }
    csv += '\n';
  }
  return csv;
}

std::vector<NoiseSample> parse_noise_csv(const std::string& csv) {
  std::vector<NoiseSample> samples;
  std::istringstream lines(csv);
  std::string line;
  std::getline(lines, line);  // titles
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    NoiseSample sample;
    const auto next = [&] {
      std::string field;
      if (!std::getline(fields, field, ',') || field.empty()) return std::nan("");
      double value = 0;
      const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
      if (error != std::errc{} || end != field.data() + field.size())
        throw InputError(fmt::format("noise: found \"{}\", expected a number", printable(field, 40)));
      return value;
    };
    sample.second = next();
    for (const NoiseColumn& each : kNoiseColumns) sample.*each.member = next();
    samples.push_back(sample);
  }
  return samples;
}

std::string noise_summary(const std::vector<NoiseSample>& samples) {
  std::string text;
  for (std::size_t i = 0; i < std::size(kNoiseColumns); ++i) {
    const NoiseColumn& each = kNoiseColumns[i];
    const std::vector<double> values = column(samples, each);
    if (values.empty()) {
      text += fmt::format("{:<22} not known on this machine\n", each.name);
    } else if (i < kTimes) {
      text += line_of_times(each.name, values);
    } else {
      text += fmt::format("{:<22} median {:.4g}, at most {:.4g}\n", each.name, median(values),
                          *std::max_element(values.begin(), values.end()));
    }
  }
  for (std::size_t i = 0; i < std::size(kNoiseColumns); ++i) {
    for (std::size_t j = i + 1; j < std::size(kNoiseColumns); ++j) {
      const double r = correlation(samples, kNoiseColumns[i], kNoiseColumns[j]);
      if (std::abs(r) > kTogether)
        text += fmt::format("together: {} and {}, correlation {:+.2f}\n", kNoiseColumns[i].name,
                            kNoiseColumns[j].name, r);
    }
  }
  return text;
}

}  // namespace plumbline
