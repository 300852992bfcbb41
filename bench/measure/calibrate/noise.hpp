// `plumbline calibrate --noise`: how steady this machine is, second by second.
#pragma once

#include <array>
#include <string>
#include <vector>

namespace plumbline {

struct NoiseOptions {
  double minutes = 10;
  std::string out;     // CSV file; empty: it goes to stdout instead of the summary
  bool quiet = false;  // no progress
  bool rank = false;   // set on the ranks that the command starts, by a hidden option
};

/// One second of this machine. Times are of one call, NaN if something is not known.
struct NoiseSample {
  double second = 0;        // since the beginning
  double gemm_alone = 0;    // a matrix product while the other processors are idle, s
  double gemm_busy = 0;     // and while all do the same
  double memory_alone = 0;  // the optimizer's update, which comes from memory, s
  double memory_busy = 0;
  double message = 0;      // 4 KiB from one rank to another, s
  double others = 0;       // share of the processors that other programs used
  double stolen = 0;       // share that the hypervisor took
  double involuntary = 0;  // times that a rank lost its processor
  double frequency = 0;    // Hz
};

struct NoiseColumn {
  const char* name;
  double NoiseSample::*member;
};
inline constexpr NoiseColumn kNoiseColumns[] = {{"gemm_alone_s", &NoiseSample::gemm_alone},
                                                {"gemm_busy_s", &NoiseSample::gemm_busy},
                                                {"memory_alone_s", &NoiseSample::memory_alone},
                                                {"memory_busy_s", &NoiseSample::memory_busy},
                                                {"message_s", &NoiseSample::message},
                                                {"others", &NoiseSample::others},
                                                {"stolen", &NoiseSample::stolen},
                                                {"involuntary_switches", &NoiseSample::involuntary},
                                                {"frequency_hz", &NoiseSample::frequency}};

/// Title line and one line per sample: the second, then kNoiseColumns.
std::string to_csv(const std::vector<NoiseSample>& samples);

/// Parses the output of to_csv(); an empty field is NaN. Throws InputError.
std::vector<NoiseSample> parse_noise_csv(const std::string& csv);

/// Summary text. For every time: its median, the middle nine tenths, drift (last fifth against the first) and
/// bursts (seconds above 1.2 times the median); the shares; and which of them move together (a correlation
/// beyond ±0.5).
std::string noise_summary(const std::vector<NoiseSample>& samples);

/// Looks at the machine every second and writes the CSV when the time is up. Returns the exit code; throws
/// OutputError when `out` cannot be written, before anything is measured.
int noise(const NoiseOptions& options);

}  // namespace plumbline
