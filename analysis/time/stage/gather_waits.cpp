#include "analysis/time/stage/gather_waits.hpp"

#include <algorithm>
#include <cstddef>

#include "analysis/step/parameters.hpp"
#include "analysis/work/parameter_units.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kChains = 2;

/// Parts of a forward, cut where a layer's modules begin.
enum class ModulePart : std::size_t { attention, fc1, fc2, output };
using ModuleSeconds = std::array<double, 4>;

/// Seconds of the parts of a whole forward, of all its layers.
ModuleSeconds parts_of(double forward_s, const std::vector<CostLine>& lines, int stage) {
  ModuleSeconds parts{};
  auto part = ModulePart::attention;
  double sum = 0;
  for (const CostLine& line : lines) {
    if (line.stage != stage || line.phase != "forward") continue;
    if (line.label.starts_with("fc1 forward")) part = ModulePart::fc1;
    if (line.label.starts_with("fc2 forward")) part = ModulePart::fc2;
    if (line.label.starts_with("output layer")) part = ModulePart::output;
    parts[static_cast<std::size_t>(part)] += line.seconds.value;
    sum += line.seconds.value;
  }
  for (double& seconds : parts) seconds *= sum > 0 ? forward_s / sum : 0;
  return parts;
}

/// Buckets of a chain's parameters, numbered from the first one gathered.
struct Buckets {
  std::vector<int> of_tensor;    // in forward order
  std::vector<double> elements;  // of a bucket
};

std::array<Buckets, kChains> buckets_of(const std::vector<HookedModule>& modules, double least) {
  std::array<Buckets, kChains> all;
  for (auto module = modules.rbegin(); module != modules.rend(); ++module) {
    Buckets& own = all[static_cast<std::size_t>(module->chain)];
    for (std::int64_t i = 0; i < module->tensors; ++i) {
      if (own.elements.empty() || own.elements.back() >= least) own.elements.push_back(0);
      own.elements.back() += static_cast<double>(module->elements);
      own.of_tensor.push_back(static_cast<int>(own.elements.size()) - 1);
    }
  }
  for (Buckets& own : all) {
    std::reverse(own.of_tensor.begin(), own.of_tensor.end());
    std::reverse(own.elements.begin(), own.elements.end());
    for (int& bucket : own.of_tensor) bucket = static_cast<int>(own.elements.size()) - 1 - bucket;
  }
  return all;
}

/// Gathers of one chain.
class Chain {
 public:
  Chain(const Buckets& buckets, std::function<double(double)> gather_s)
      : buckets_(buckets), gather_s_(std::move(gather_s)) {
    for (const double elements : buckets.elements) all_ += elements;
  }

  /// The hook of a module with the next `tensors` parameters, which are there at the time returned.
  double hook(std::int64_t tensors, double now) {
    for (std::int64_t i = 0; i < tensors; ++i) {
      const int bucket = buckets_.of_tensor[next_++];
      if (bucket < gathered_) continue;
      if (started_ <= bucket) start(now);
      now = std::max(now, ends_);
      gathered_ = bucket + 1;
      if (static_cast<std::size_t>(started_) < buckets_.elements.size()) start(now);
    }
    return now;
  }

 private:
  void start(double now) {
    const double elements = buckets_.elements[static_cast<std::size_t>(started_++)];
    if (elements != priced_) seconds_ = gather_s_(elements / all_);
    priced_ = elements;
    ends_ = now + seconds_;
  }

  const Buckets& buckets_;
  std::function<double(double)> gather_s_;
  double all_ = 0;
  std::size_t next_ = 0;  // parameter
  int started_ = 0;       // buckets
  int gathered_ = 0;
  double ends_ = 0;  // of the one started last
  double priced_ = 0;
  double seconds_ = 0;  // of as many elements
};

}  // namespace

std::vector<HookedModule> hooked_modules(const StageShape& s, double forward_s,
                                         const std::vector<CostLine>& lines) {
  const ModuleSeconds parts = parts_of(forward_s, lines, s.place.stage);
  const auto of_layer = [&](ModulePart part) {
    return parts[static_cast<std::size_t>(part)] / static_cast<double>(std::max<std::int64_t>(s.layers, 1));
  };
  const bool spread = s.spreads_experts();
  const double fc1 = static_cast<double>(spread ? s.expert.fc1 : s.mlp.fc1);
  const double ffn = static_cast<double>(spread ? s.expert.ffn : s.mlp.ffn);
  const std::int64_t experts = std::max<std::int64_t>(1, s.mixture() ? s.local_experts() : 1);
  std::vector<HookedModule> modules;
  for (const ParameterUnit& unit : units_of(s)) {
    if (unit.kind != UnitKind::layer) {
      const bool last = unit.kind == UnitKind::output;
      modules.push_back({GatherChain::rest, 1, unit.elements,
                         last ? parts[static_cast<std::size_t>(ModulePart::output)] : 0});
      continue;
    }
    const bool own = unit.experts > 0;
    const std::int64_t matrices =
        own ? unit.experts
            : std::min(unit.elements, static_cast<std::int64_t>(fc1 + ffn) * s.stream.hidden * experts);
    const std::int64_t of_expert = matrices / experts;
    const auto share = [&](double width) {
      return static_cast<std::int64_t>(static_cast<double>(of_expert) * width / (fc1 + ffn));
    };
    const GatherChain chain = own ? GatherChain::experts : GatherChain::rest;
    modules.push_back({GatherChain::rest, 1, unit.elements - matrices, of_layer(ModulePart::attention)});
    modules.push_back({chain, experts, share(fc1), of_layer(ModulePart::fc1)});
    modules.push_back({chain, experts, share(ffn), of_layer(ModulePart::fc2)});
  }
  return modules;
}

double gather_waits(const std::vector<HookedModule>& modules, double least,
                    const std::function<double(GatherChain, double)>& gather_s) {
  const std::array<Buckets, kChains> buckets = buckets_of(modules, least);
  const auto chain_of = [&](GatherChain chain) {
    return Chain(buckets[static_cast<std::size_t>(chain)],
                 [&gather_s, chain](double share) { return gather_s(chain, share); });
  };
  std::array<Chain, kChains> chains{chain_of(GatherChain::rest), chain_of(GatherChain::experts)};
  double now = 0;
  double computed = 0;
  for (const HookedModule& module : modules) {
    now = chains[static_cast<std::size_t>(module.chain)].hook(module.tensors, now) + module.computes_s;
    computed += module.computes_s;
  }
  return now - computed;
}

}  // namespace plumbline
