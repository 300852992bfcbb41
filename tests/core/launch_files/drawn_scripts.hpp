// Launch scripts drawn at random from a grammar of bash.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>

namespace plumbline::test {

/// Files that the scripts source, by name; they lie beside them.
const std::map<std::string, std::string>& sourced_files();

class DrawnScripts {
 public:
  explicit DrawnScripts(std::uint64_t seed) : random_(seed) {}
  /// A script that starts torchrun, mostly once.
  std::string draw();

 private:
  std::string expand(const std::string& symbol, int depth);
  std::size_t below(std::size_t count) { return random_() % count; }

  std::mt19937_64 random_;
  int names_ = 0;
};

}  // namespace plumbline::test
