// Optimizers of Megatron-LM (megatron/training/arguments.py@d98e8a64, megatron/core/optimizer/).
#include <string>
#include <utility>

#include "core/launch_files/megatron/megatron_optimizer.hpp"

namespace plumbline {
namespace {

constexpr std::pair<const char*, const char*> kMuonKeys[] = {
    {"--muon-momentum", "muon_momentum"},
    {"--muon-scale-mode", "muon_scale_mode"},
    {"--muon-extra-scale-factor", "muon_extra_scale_factor"},
    {"--muon-num-ns-steps", "muon_num_ns_steps"}};

constexpr const char* kScalar = "--muon-scalar-optimizer";
constexpr const char* kNesterov = "--muon-nesterov";
constexpr const char* kWhole = "--muon-no-split-qkv";
constexpr const char* kCoefficients = "--muon-coefficient-type";
constexpr const char* kMode = "--muon-tp-mode";
constexpr const char* kMomentum = "--sgd-momentum";

void set_muon(LaunchArguments& from) {
  for (const auto& [flag, key] : kMuonKeys)
    if (from.has(flag)) from.set(key, from.text(flag, ""), flag);
  if (from.has(kNesterov)) from.set("muon_nesterov", from.on(kNesterov) ? "true" : "false", kNesterov);
  if (from.has(kWhole)) from.set("muon_split_qkv", from.on(kWhole) ? "false" : "true", kWhole);
  const std::string coefficients = from.text(kCoefficients, "quintic");
  if (coefficients == "simple" || coefficients == "quintic") {
    if (from.has(kCoefficients)) from.set("muon_coefficient_type", coefficients, kCoefficients);
  } else {
    from.without_effect(kCoefficients, "other numbers, in as many products");
  }
  const std::string mode = from.text(kMode, "duplicated");
  if (from.has(kMode)) from.set("muon_tp_mode", mode == "distributed" ? "duplicated" : mode, kMode);
  if (mode == "distributed") from.approximated(kMode, "predicted as duplicated");
  if (from.text(kScalar, "adam") != "adam")
    from.not_modelled(kScalar, from.text(kScalar, "") + " for embeddings and vectors, expected adam");
}

void name_idle_muon(LaunchArguments& from) {
  const auto idle = [&](const char* flag) {
    if (from.has(flag)) from.without_effect(flag, "--optimizer is not muon");
  };
  for (const auto& [flag, key] : kMuonKeys) idle(flag);
  for (const char* flag : {kScalar, kNesterov, kWhole, kCoefficients, kMode}) idle(flag);
}

}  // namespace

void set_optimizer(LaunchArguments& from) {
  const char* const flag = "--optimizer";
  const std::string name = from.text(flag, "adam");
  const bool muon = name == "muon" || name == "dist_muon";
  if (from.has(flag)) from.set("optimizer", muon ? "muon" : name, flag);
  if (muon) set_muon(from);
  if (!muon) name_idle_muon(from);
  if (name == "sgd") {
    from.set("sgd_momentum", from.text(kMomentum, "0.9"), from.has(kMomentum) ? kMomentum : flag);
  } else if (from.has(kMomentum)) {
    from.without_effect(kMomentum, "--optimizer is not sgd");
  }
}

}  // namespace plumbline
